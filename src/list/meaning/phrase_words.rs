//! What one word of a phrase says about a sender, in the languages of lists.
//!
//! Words are in lower case and without accents, as [`Name`](super::column_name::Name) cuts them.
//! They have this meaning in phrases only: `not spam`, `kein Spam`, `no longer listed`.

use super::action::Action;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The sender is refused.
    Blocks,
    /// The sender passes.
    Allows,
    /// The entry is no longer on the list.
    Ends,
    /// The entry is active.
    Lasts,
    /// Something else happens to the sender.
    Other,
    /// The opposite of the next word.
    Not,
    /// Nothing.
    Filling,
    /// The word is unknown.
    Unknown,
}

/// Endings of words in some languages: `blockierter`, `removes`.
const ENDINGS: &[&str] = &["er", "en", "es", "em", "e", "s"];

/// Minimum length in bytes of a word without its ending.
const SHORTEST_STEM: usize = 4;

impl Word {
    /// Returns what `word` says, and whether it says so beside unknown words, too. `old` and `safe`
    /// do not: beside them, an unknown word can mean anything (`old spammer`, `safe harbor`).
    pub(crate) fn of(word: &str) -> (Self, bool) {
        let stems = ENDINGS
            .iter()
            .filter_map(|ending| word.strip_suffix(ending))
            .filter(|stem| stem.len() >= SHORTEST_STEM);
        std::iter::once(word)
            .chain(stems)
            .map(Self::of_stem)
            .find(|(said, _)| *said != Self::Unknown)
            .unwrap_or((Self::Unknown, false))
    }

    fn of_stem(word: &str) -> (Self, bool) {
        let is = |words: &[&str]| words.contains(&word);
        let said = if is(NOT) {
            Self::Not
        } else if is(FILLING) {
            Self::Filling
        } else if is(ALLOWS) || is(WEAK_ALLOWS) {
            Self::Allows
        } else if is(BLOCKS) {
            Self::Blocks
        } else if is(ENDS) || is(PAST) {
            Self::Ends
        } else if is(ACTIVE) {
            Self::Lasts
        } else {
            match Action::of(word.as_bytes()) {
                Some(Action::Allow) => Self::Allows,
                Some(Action::Block) => Self::Blocks,
                Some(Action::Other) => Self::Other,
                None => Self::Unknown,
            }
        };
        (said, !is(WEAK_ALLOWS) && !is(WEAK_ENDS))
    }
}

/// Returns whether a word says that an entry should not be there: `listed by mistake`, `in error`.
pub(super) fn is_mistake(word: &str, before: Option<&str>) -> bool {
    let follows =
        before.is_some_and(|before| matches!(before, "by" | "in" | "par" | "per" | "por"));
    MISTAKES.contains(&word) || follows && ERRORS.contains(&word)
}

#[rustfmt::skip]
const MISTAKES: &[&str] = &[
    "erroneously", "irrtum", "irrtumlich", "mistake", "mistaken", "mistakenly", "oops", "versehen",
    "versehentlich", "wrongly",
];

const ERRORS: &[&str] = &["accident", "error", "errore", "erreur"];

const NOT: &[&str] = &[
    "aren", "cannot", "don", "dont", "ei", "ej", "geen", "ikke", "inte", "isn", "jamais", "kein",
    "keine", "keinen", "keiner", "mai", "nao", "ne", "nej", "never", "nicht", "nie", "niemals",
    "niet", "no", "non", "nooit", "not", "nunca", "pas", "wasn", "не", "нет",
];

#[rustfmt::skip]
const FILLING: &[&str] = &[
    "ends", "expires", "expiring", "until", "antrag", "customer", "demande", "kunde", "kunden",
    "wieder", "wunsch", "a", "add", "added", "absender", "address", "addresses", "adres",
    "adresse", "adressen", "adresses", "again", "ahora", "al", "all", "already", "als", "also",
    "always", "am", "an", "and", "any", "anymore", "are", "as", "at", "auf", "aus", "be", "been",
    "being", "bereits", "bitte", "by", "completely", "correo", "currently", "da", "das", "de",
    "dem", "den", "der", "des", "di", "die", "do", "does", "domain", "domains", "domein",
    "dominio", "duerfen", "durfen", "e", "ein", "eine", "einen", "el", "email", "emails", "en",
    "entries", "entry", "er", "es", "est", "esta", "et", "ete", "eintrag", "eintraege", "eintrage",
    "estos", "expediteur", "expediteurs", "fast", "for", "from", "fur", "fuer", "ha", "had",
    "hard", "has", "have", "here", "het", "host", "hosts", "i", "il", "immer", "in", "incoming",
    "ir", "is", "ist", "it", "its", "jetzt", "just", "known", "la", "las", "le", "les", "lijst",
    "lista", "list", "liste", "listen", "lists", "longer", "los", "mail", "mailbox", "mails",
    "mas", "me", "meer", "mehr", "message", "messages", "mittente", "mittenti", "more", "my",
    "notre", "now", "nu", "of", "on", "only", "onze", "or", "our", "permanently", "piu", "please",
    "plus", "remitente", "remitentes", "request", "requests", "s", "section", "seit", "sender",
    "senders", "since", "sind", "sont", "start", "status", "t", "temporarily", "that", "the",
    "them", "these", "they", "this", "to", "und", "unless", "unser", "unsere", "us", "user",
    "users", "van", "von", "was", "war", "wurde", "werden", "were", "will", "wird", "with", "y",
    "you", "listina", "seznam", "zoznam", "목록", "발신자", "λιστα", "λίστα", "адреса", "домены", "домени", "листа", "отправители",
    "список", "списък", "القائمة", "רשימה",
];

/// Words that allow, besides the words for actions.
#[rustfmt::skip]
const ALLOWS: &[&str] = &[
    "accepter", "accepts", "aceptar", "aceptado", "aceitar", "akzeptieren", "akzeptiert",
    "allowing", "allows", "approved", "ausgenommen", "ausnahme", "ausnahmen", "autorisation",
    "autorise", "autorisee", "autorisees", "autoriser", "autorises", "autorizado", "autorizados",
    "autorizzati", "autorizzato", "betrodd", "bianca", "biala", "blanca", "blanche", "branca",
    "bypass", "confiable", "confiables", "confiance", "consentire", "consentiti", "consentito",
    "deblocked", "debloque", "debloquee", "debloques", "debloquer", "deblokkeren", "desbloqueado",
    "desbloqueados", "desbloquear", "dozwolone", "dozwoleni", "dozwolony", "durchlassen",
    "eccezione", "eccezioni", "entblocken", "entblockt", "entsperren", "entsperrt", "entsperrte",
    "erlaubt", "erlaubte", "erlauben", "erlaubter", "erwunscht", "excepcion", "excepciones",
    "except", "exception", "exceptions", "exclude", "excluded", "excludes", "exclusion",
    "exclusions", "exempting", "exemption", "exemptions", "exempts", "falschmeldung", "fehlalarm",
    "fehlalarme", "fp", "fps", "freigabe", "freigaben", "freigeben", "freigegeben", "freigegebene",
    "freigeschaltet", "geaccepteerd", "gedeblokkeerd", "genehmigt", "godkand", "godkend",
    "godkendt", "goodlist", "innocent", "innocents", "kundenliste", "legitimate", "legitime",
    "legitimo", "nonspam", "notspam", "odblokowany", "odblokuj", "permettre", "permits",
    "permitido", "permitidos", "permitir", "permis", "positivliste", "sbloccare", "sbloccato",
    "tillad", "tilladt", "tillat", "tillaten", "tillatet", "tillatna", "toegelaten", "toegestaan",
    "toegestane", "toelaten", "toestaan", "trusts", "uitzondering", "uitzonderingen", "unban",
    "unbanned", "unblocking", "unblocks", "undantag", "undtagelse", "undtagelser",
    "vertrauenswurdig", "vertrauenswurdige", "vertrouwd", "vertrouwde", "weisse", "wei\u{df}e",
    "whitelisting", "whitelists", "witte", "wyjatek", "wyjatki", "zaufane", "zaufani", "zaufany",
    "zezwalaj", "zezwol", "zugelassen", "zugelassene", "zulassen", "белый", "белыи", "доверенные",
    "доверенныи", "доверенный", "исключение", "исключения", "принять", "разблокирован",
    "разблокировать", "разрешен", "разрешено", "разрешенные", "разрешённые", "разрешить", "исключений",
    "белые", "біла", "білий", "бял", "винятки", "довірені", "дозволені", "позволени", "λευκή", "λευκη",
    "البيضاء", "לבנה", "beyaz", "bila", "feherlista", "izin", "izinli", "verilen", "verilenler", "izinverilenler", "povolene", "povoleni", "duveryhodne", "engedelyezett", "engedelyezettek", "permise", 
    "sallitut", "例外", "允许", "允許", "允许列表", "允許清單", "例外リスト", "受信許可", "受信許可リスト", "白名单", "白名單",
    "許可", "許可する", "許可リスト", "除外", "除外リスト", "信任", "信任列表", "ホワイトリスト", "예외", "허용", "허용목록",
    "화이트리스트",
];

/// Words that allow, but not beside unknown words.
#[rustfmt::skip]
const WEAK_ALLOWS: &[&str] = &[
    "benign", "clean", "delivered", "friend", "friendly", "friends", "good", "goods", "ham",
    "harmless", "harmlos", "innocuous", "legit", "okay", "pass", "passed", "relay", "safe",
    "sicher", "seguro", "sicuro", "trust", "unbedenklich", "veilig", "welcome", "white",
];

/// Words that refuse, besides the words for actions.
#[rustfmt::skip]
const BLOCKS: &[&str] = &[
    "abgelehnt", "abgewiesen", "ablehnen", "abuser", "abusers", "abuse", "abweisen", "afgewezen",
    "afwijzen", "avvisa", "avvist", "bad", "badmailfrom", "bans", "betrug", "black", "blockera",
    "blockerad", "blockieren", "blockiert", "blockierte", "blocking", "blocks", "blokada",
    "bloker", "blokeret", "blokir", "blokkeer", "blokkeren", "blokkert", "blokowac", "blokuj",
    "bloccare", "bloccati", "bloccato", "bloque", "bloqueado", "bloqueados", "bloquear", "bloquee",
    "bloquees", "bloquer", "bloques", "bounce", "bounced", "bounces", "denegado", "denegar",
    "denies", "engelle", "engellendi", "fraud", "geblokkeerd", "geblokkeerde", "gelistet",
    "gesperrt", "gesperrte", "geweigerd", "indesirable", "indesirables", "interdire", "interdit",
    "interdits", "junk", "listed", "malicious", "malware", "negra", "nera", "noire", "odrzuc",
    "odrzucony", "phisher", "phishers", "phishing", "prohibido", "rechazado", "rechazar",
    "recusar", "refuser", "rejects", "rejeter", "rejete", "rejeitado", "rejeitar", "respingere",
    "respinto", "rifiutare", "rifiutato", "scam", "scammer", "scammers", "schwarze", "spam",
    "spammer", "spammers", "spammy", "spams", "sparra", "sparrad", "sperre", "sperren",
    "sperrliste", "unerwunscht", "unerwunschte", "unwanted", "verboten", "verweigern",
    "verweigert", "vietato", "weigeren", "werbung", "zablokowane", "zablokowany", "zablokuj",
    "zwarte", "блокировать", "заблокирован", "заблокировать", "запретить", "отклонен", "отклонить",
    "спам", "спамеры", "черные", "чёрные", "черный", "чёрный", "чорний", "черен", "заблокированные",
    "заблоковані", "μαύρη", "μαυρη", "السوداء", "שחורה", "cerna", "blokovane", "blokovani", "zablokovane", "zablokovani", "tiltott", "tiltottak", "interzise", "blocate","czarna", "engellenen", "engellenenler", "engelli", "yasakli", "yasaklilar",
    "estetyt", "feketelista", "kara", "拒否", "拒否リスト", "受信拒否", "受信拒否リスト", "拒绝", "拒絕", "阻止",
    "阻止列表", "黑名单", "黑名單", "垃圾邮件", "垃圾郵件", "封鎖", "封锁", "迷惑メール", "ブラックリスト", "ブロックリスト",
    "블랙리스트", "차단", "차단목록", "스팸",
];

/// Words that end an entry, besides the words for a status.
#[rustfmt::skip]
const ENDS: &[&str] = &[
    "annule", "aufgehoben", "ausgetragen", "beendet", "borrado", "borttagen", "caducado",
    "cancellato", "del", "delete", "deletes", "delist", "delists", "desactivado", "desactive",
    "disable", "disattivato", "efface", "eliminato", "ended", "entfernen", "entfernte", "erledigt",
    "expirado", "expire", "expirees", "fjernet", "geloschte", "geschrapt", "gestrichen", "ignore",
    "ignored", "ingetrokken", "lapsed", "loschen", "outdated", "paused", "remove", "removal",
    "removals", "removes", "removido", "retire", "retracted", "rimosso", "rm", "scaduto", "skip",
    "skipped", "slettet", "stale", "supprimes", "suspended", "ungultig", "unlist", "usuniete",
    "usuniety", "vencido", "veraltet", "verlopen", "void", "wygasl", "zuruckgezogen", "истек",
    "снят", "удален",
];

/// Words that, beside unknown words, are more often about a domain or a sender than about its
/// entry.
#[rustfmt::skip]
const WEAK_ENDS: &[&str] = &[
    "archived", "closed", "ended", "expired", "ignore", "ignored", "old", "past", "paused",
    "released", "skip", "skipped", "suspended", "void",
];

/// Words for an entry that is no longer on the list.
#[rustfmt::skip]
pub(super) const PAST: &[&str] = &[
    "abgelaufen", "archived", "cancelled", "canceled", "cleared", "closed", "deactivated",
    "deaktiviert", "deleted", "delisted", "disabled", "dismissed", "eliminado", "entfernt",
    "expired", "geloescht", "geloscht", "inactif", "inactive", "inactivo", "inaktiv", "inattivo",
    "lifted", "obsolete", "old", "pardoned", "past", "purged", "released", "removed", "resolved",
    "retired", "revoked", "supprime", "unlisted", "verwijderd", "withdrawn",
];

/// Words for an active entry.
const ACTIVE: &[&str] = &[
    "actief", "actif", "active", "activo", "aktiv", "attivo", "current", "enabled", "live", "valid",
];
