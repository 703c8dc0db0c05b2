//! Entries that would list the world.
//!
//! One careless line of a feed (`@gmail.com`, `.co.uk`, `postmaster@`) stops more
//! innocent mail than all the others together stop of the wanted kind. Such an entry is
//! refused, with a reason, unless the person who compiles the list insists.
//!
//! | entry | refused |
//! |---|---|
//! | any | without anything to name: empty, `@`, `.` |
//! | mailbox, local part | `postmaster`, `abuse`, `mailer-daemon`: RFC 5321 section 4.5.1 and RFC 2142 want them reachable, and bounces come from the last |
//! | local part | `info@`, `noreply@` ...: a mailbox of almost every domain |
//! | domain | a public suffix of ICANN's section (`@co.uk`), a single label, a freemail provider |
//! | subtree | the same, and public suffixes of the private section (`.blogspot.com`) |
//! | any | at, below or above a protected domain |
//!
//! A private suffix *itself* may be listed: many providers of throw-away addresses
//! (`@dynv6.net`) entered their domain there, lists name them rightly, and the entry
//! reaches nobody but mailboxes of that very name. Its subtree is another matter: those
//! are other people's domains.

use std::fmt;

use psl::{List, Psl as _, Type};

use crate::address::{Kind, is_provider};

/// Why an entry is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Danger {
    /// It names nobody, and so everybody.
    Everybody,
    /// A mailbox that every domain has to have, or that bounces come from.
    Duty,
    /// A local part that almost every domain has.
    CommonLocalPart,
    /// A public suffix: under it are domains of many owners.
    Suffix,
    /// The domains under a public suffix.
    UnderSuffix,
    /// A provider of mailboxes for anybody.
    Freemail,
    /// At, below or above this protected domain.
    Protected(String),
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("would list everybody"),
            Self::Duty => f.write_str(
                "every domain must be reachable by this mailbox, and bounces and complaints come from it",
            ),
            Self::CommonLocalPart => {
                f.write_str("would list this mailbox of almost every domain there is")
            }
            Self::Suffix => f.write_str(
                "a public suffix, with domains of many owners under it; list the domains meant",
            ),
            Self::UnderSuffix => f.write_str(
                "would list all domains under a public suffix, which have many owners",
            ),
            Self::Freemail => f.write_str(
                "a provider where anybody can have a mailbox; list the addresses meant",
            ),
            Self::Protected(domain) => write!(f, "{domain} is protected by --protect"),
        }
    }
}

/// What refuses such entries.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Whether only protected domains are refused.
    allows_world: bool,
    protected: Vec<Vec<u8>>,
}

impl Guard {
    /// A guard that also protects `domains` (canonical: A-labels in lower case).
    #[must_use]
    pub fn new<D: AsRef<[u8]>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self {
            allows_world: false,
            protected: domains
                .into_iter()
                .map(|domain| domain.as_ref().to_vec())
                .collect(),
        }
    }

    /// A guard of `domains` alone, for a person who means to list the world.
    #[must_use]
    pub fn of_protected_alone<D: AsRef<[u8]>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self {
            allows_world: true,
            ..Self::new(domains)
        }
    }

    /// Whether an entry, in its canonical text (`a@b`, `a@`, `@b`, `.b`), may be listed.
    /// Mailboxes take a few nanoseconds: a list may have a billion.
    ///
    /// # Errors
    ///
    /// Says what the entry would do.
    #[inline]
    pub fn check(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        if !self.allows_world {
            lists_no_world(kind, entry)?;
        }
        if self.protected.is_empty() {
            return Ok(());
        }
        self.check_protected(kind, entry)
    }

    fn check_protected(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        let domain = match kind {
            Kind::Mailbox => {
                // The last `@`: one before it is in quotes.
                let at = memchr::memrchr(b'@', entry).map_or(entry.len(), |at| at + 1);
                entry.get(at..).unwrap_or_default()
            }
            Kind::LocalPart => return Ok(()),
            Kind::Domain => entry.strip_prefix(b"@").unwrap_or(entry),
            Kind::Subtree => entry.strip_prefix(b".").unwrap_or(entry),
        };
        let hit = self.protected.iter().find(|own| {
            is_at_or_below(domain, own) || (kind == Kind::Subtree && is_at_or_below(own, domain))
        });
        match hit {
            Some(own) => Err(Danger::Protected(String::from_utf8_lossy(own).into_owned())),
            None => Ok(()),
        }
    }
}

/// Whether an entry names only senders of its own.
#[inline]
fn lists_no_world(kind: Kind, entry: &[u8]) -> Result<(), Danger> {
    match kind {
        Kind::Mailbox => duty(entry),
        Kind::LocalPart => {
            duty(entry)?;
            local_part(entry.strip_suffix(b"@").unwrap_or(entry))
        }
        Kind::Domain => domain(entry.strip_prefix(b"@").unwrap_or(entry), false),
        Kind::Subtree => domain(entry.strip_prefix(b".").unwrap_or(entry), true),
    }
}

/// Local parts that a domain must answer for, each with its `@`.
const DUTIES: [&[u8]; 3] = [b"abuse@", b"mailer-daemon@", b"postmaster@"];

#[inline]
fn duty(entry: &[u8]) -> Result<(), Danger> {
    // Almost every entry leaves here, by a branch that can be foreseen.
    match entry.first_chunk() {
        Some(start) if ![*b"abus", *b"mail", *b"post"].contains(start) => Ok(()),
        _ => duty_in_full(entry),
    }
}

fn duty_in_full(entry: &[u8]) -> Result<(), Danger> {
    if matches!(entry, [] | [b'@']) {
        return Err(Danger::Everybody);
    }
    if DUTIES.iter().any(|duty| entry.starts_with(duty)) {
        return Err(Danger::Duty);
    }
    Ok(())
}

/// Local parts that lists of addresses hold at one domain, never at all of them.
const COMMON: &[&[u8]] = &[
    b"admin",
    b"contact",
    b"do-not-reply",
    b"donotreply",
    b"hostmaster",
    b"info",
    b"mail",
    b"no-reply",
    b"no_reply",
    b"noc",
    b"noreply",
    b"office",
    b"root",
    b"security",
    b"support",
    b"webmaster",
];

fn local_part(local: &[u8]) -> Result<(), Danger> {
    if matches!(local, b"" | b"*") {
        Err(Danger::Everybody)
    } else if COMMON.contains(&local) {
        Err(Danger::CommonLocalPart)
    } else {
        Ok(())
    }
}

/// Whether a domain, or all that is below it, may be listed.
fn domain(domain: &[u8], below: bool) -> Result<(), Danger> {
    if domain.iter().all(|b| matches!(b, b'.' | b'*' | b'@')) {
        return Err(Danger::Everybody);
    }
    if domain.starts_with(b"[") {
        // An address literal is one host.
        return Ok(());
    }
    if is_provider(domain) || FREEMAIL.binary_search(&domain).is_ok() {
        return Err(Danger::Freemail);
    }
    let is_suffix = List
        .suffix(domain)
        .filter(|suffix| suffix.as_bytes() == domain)
        // Without a rule (`example`, `local`) the last label is the suffix.
        .map(|suffix| suffix.typ().unwrap_or(Type::Icann));
    match (is_suffix, below) {
        (None, _) | (Some(Type::Private), false) => Ok(()),
        (Some(Type::Icann), false) => Err(Danger::Suffix),
        (Some(_), true) => Err(Danger::UnderSuffix),
    }
}

/// Whether `domain` is `other` or one of its subdomains.
fn is_at_or_below(domain: &[u8], other: &[u8]) -> bool {
    domain
        .strip_suffix(other)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
}

/// Domains where anybody can have a mailbox, or every customer of a network has one,
/// beside those that [`is_provider`] knows. Sorted. Collected from what the providers say of themselves; forwarding services
/// that give out addresses by the thousand to honest people count as such.
#[rustfmt::skip]
const FREEMAIL: &[&[u8]] = &[
    b",
        ", b",
    subdomains: false,
    domain: None,
    domains: &[
        ", b", ",
    b"126.com", b"139.com", b"163.com", b"188.com", b"189.cn", b"1und1.de", b"a1.net", b"abv.bg",
    b"aim.com", b"alice.it", b"aliceadsl.fr", b"aliyun.com", b"ameritech.net", b"aol.co.uk",
    b"aol.com", b"aol.de", b"aol.es", b"aol.fr", b"aol.it", b"aon.at", b"arcor.de", b"arnet.com.ar",
    b"aruba.it", b"asia.com", b"atlas.cz", b"att.net", b"au.com", b"autograf.pl", b"autorambler.ru",
    b"azet.sk", b"bbox.fr", b"bell.net", b"bellsouth.net", b"bezeqint.net", b"bigfoot.com",
    b"biglobe.ne.jp", b"bigmir.net", b"bigpond.com", b"bigpond.net.au", b"bk.ru", b"blu.it",
    b"bluewin.ch", b"blueyonder.co.uk", b"bol.com.br", b"bredband.net", b"broadpark.no",
    b"btinternet.com", b"btopenworld.com", b"caramail.com", b"casema.nl", b"cegetel.net",
    b"centrum.cz", b"centrum.sk", b"centurylink.net", b"charter.net", b"cheerful.com", b"chello.at",
    b"chello.nl", b"citromail.hu", b"ciudad.com.ar", b"clix.pt", b"club-internet.fr", b"cogeco.ca",
    b"comcast.net", b"comhem.se", b"consultant.com", b"countermail.com", b"cox.net",
    b"ctemplar.com", b"daum.net", b"dir.bg", b"disroot.org", b"docomo.ne.jp", b"dr.com", b"drei.at",
    b"duck.com", b"earthlink.net", b"eclipso.de", b"elisanet.fi", b"email.com", b"email.cz",
    b"email.it", b"email.ua", b"embarqmail.com", b"engineer.com", b"europe.com", b"excite.co.jp",
    b"excite.com", b"ezweb.ne.jp", b"fastwebnet.it", b"fibertel.com.ar", b"forthnet.gr",
    b"foxmail.com", b"free.fr", b"freemail.de", b"freemail.hu", b"freenet.de", b"frontier.com",
    b"frontiernet.net", b"gazeta.pl", b"getmail.no", b"globo.com", b"globomail.com", b"gmx.at",
    b"gmx.biz", b"gmx.ch", b"gmx.co.uk", b"gmx.com", b"gmx.de", b"gmx.es", b"gmx.eu", b"gmx.fr",
    b"gmx.info", b"gmx.net", b"gmx.org", b"gmx.us", b"goo.ne.jp", b"hanmail.net", b"hanmir.com",
    b"hetnet.nl", b"hey.com", b"hispeed.ch", b"hol.gr", b"home.nl", b"hot.ee", b"hotmail.ch",
    b"hotmail.co.jp", b"hotmail.fi", b"hotmail.gr", b"hotmail.rs", b"hush.com", b"hushmail.com",
    b"i.softbank.jp", b"i.ua", b"ig.com.br", b"iinet.net.au", b"in.com", b"in.gr", b"iname.com",
    b"inbox.com", b"inbox.lt", b"inbox.lv", b"inbox.ru", b"indamail.hu", b"indiatimes.com",
    b"interia.eu", b"interia.pl", b"internet.ru", b"internode.on.net", b"inwind.it", b"iol.it",
    b"iol.pt", b"jubii.dk", b"juno.com", b"kabelmail.de", b"kabsi.at", b"kakao.com", b"keemail.me",
    b"kolabnow.com", b"kolumbus.fi", b"kpnmail.nl", b"kpnplanet.nl", b"laposte.net", b"lavabit.com",
    b"lenta.ru", b"libero.it", b"list.ru", b"live.hk", b"love.com", b"luukku.com", b"lycos.co.uk",
    b"lycos.com", b"lycos.de", b"magenta.de", b"mail.bg", b"mail.com", b"mail.de", b"mail.dk",
    b"mail.ee", b"mail.gr", b"mail.ru", b"mail.telepac.pt", b"mailbox.org", b"mailcity.com",
    b"mailfence.com", b"mailo.com", b"mediacombb.net", b"messagingengine.com", b"meta.ua",
    b"mindspring.com", b"movistar.es", b"mozmail.com", b"mweb.co.za", b"mynet.com", b"myrambler.ru",
    b"myself.com", b"myway.com", b"myyahoo.com", b"nate.com", b"naver.com", b"netcabo.pt",
    b"netcourrier.com", b"netscape.net", b"netvision.net.il", b"netzero.net", b"neuf.fr", b"ngs.ru",
    b"nifty.com", b"ntlworld.com", b"numericable.fr", b"o2.co.uk", b"o2.pl", b"ocn.ne.jp",
    b"oi.com.br", b"one.lt", b"onet.eu", b"onet.pl", b"online.de", b"online.no", b"onmail.com",
    b"ono.com", b"op.pl", b"optimum.net", b"optonline.net", b"optusnet.com.au", b"orange.fr",
    b"otenet.gr", b"pacbell.net", b"passmail.net", b"planet.nl", b"plus.com", b"plusnet.com",
    b"pobox.com", b"pochta.ru", b"poczta.fm", b"poczta.onet.pl", b"post.com", b"post.cz",
    b"post.sk", b"poste.it", b"posteo.de", b"posteo.eu", b"posteo.net", b"pp.inet.fi",
    b"privaterelay.appleid.com", b"prodigy.net", b"prodigy.net.mx", b"proximus.be", b"q.com",
    b"qq.com", b"quicknet.nl", b"r7.com", b"rambler.ru", b"rediff.com", b"rediffmail.com",
    b"riseup.net", b"ro.ru", b"roadrunner.com", b"rogers.com", b"rr.com", b"runbox.com", b"sapo.pt",
    b"saunalahti.fi", b"sbcglobal.net", b"scarlet.be", b"seznam.cz", b"sfr.fr", b"shaw.ca",
    b"simplelogin.com", b"sina.cn", b"sina.com", b"sina.com.cn", b"skiff.com", b"sky.com",
    b"skynet.be", b"slingshot.co.nz", b"so-net.ne.jp", b"softbank.ne.jp", b"sohu.com",
    b"soverin.net", b"spectrum.net", b"speedy.com.ar", b"spray.se", b"startmail.com",
    b"stofanet.dk", b"suddenlink.net", b"sunrise.ch", b"suomi24.fi", b"superonline.com",
    b"swbell.net", b"sympatico.ca", b"t-online.de", b"t-online.hu", b"talktalk.net", b"tdcadsl.dk",
    b"techie.com", b"tele2.se", b"telefonica.net", b"telenet.be", b"teletu.it", b"telia.com",
    b"telkomsa.net", b"telus.net", b"terra.com", b"terra.com.br", b"terra.es", b"tim.it", b"tin.it",
    b"tiscali.co.uk", b"tiscali.it", b"tlen.pl", b"tom.com", b"tpg.com.au", b"ttmail.com",
    b"tut.by", b"tuta.com", b"tuta.io", b"tutamail.com", b"tutanota.com", b"tutanota.de",
    b"twc.com", b"ukr.net", b"uol.com.br", b"upcmail.nl", b"usa.com", b"usa.net", b"verizon.net",
    b"videotron.ca", b"vip.163.com", b"vip.qq.com", b"vip.sina.com", b"virgilio.it", b"virgin.net",
    b"virginmedia.com", b"vodafone.de", b"vodafone.it", b"vodafonemail.de", b"vodamail.co.za",
    b"voila.fr", b"volny.cz", b"vp.pl", b"walla.co.il", b"walla.com", b"wanadoo.fr", b"web.de",
    b"webmail.co.za", b"welho.com", b"westnet.com.au", b"windstream.net", b"wo.cn", b"wp.pl",
    b"writeme.com", b"xfinity.com", b"xs4all.nl", b"xtra.co.nz", b"yahoo.cl", b"yahoo.cn",
    b"yahoo.co.jp", b"yahoo.co.kr", b"yahoo.com.cn", b"yahoo.com.pe", b"ybb.ne.jp", b"yeah.net",
    b"ziggo.nl", b"zipmail.com.br", b"zoho.com", b"zohomail.com", b"zohomail.eu", b"zohomail.in",
    b"zoznam.sk",
];

#[cfg(test)]
mod tests {
    use super::{Danger, FREEMAIL, Guard};
    use crate::address::{Entry, Kind, Rules, is_provider};

    fn check(guard: &Guard, text: &str) -> Result<(), Danger> {
        let entry = Entry::parse(text.as_bytes(), Rules::default()).unwrap();
        guard.check(entry.kind(), entry.as_bytes())
    }

    #[test]
    fn entries_and_what_becomes_of_them() {
        let guard = Guard::default();
        for (entry, danger) in [
            ("spam@gmail.com", None),
            ("spam@bad.example", None),
            ("postmasters@bad.example", None),
            ("Postmaster@bad.example", Some(Danger::Duty)),
            ("abuse@bad.example", Some(Danger::Duty)),
            ("mailer-daemon@", Some(Danger::Duty)),
            ("spammer@", None),
            ("newsletter@", None),
            ("noreply@", Some(Danger::CommonLocalPart)),
            ("info@bad.example", None),
            ("@bad.example", None),
            (".bad.example", None),
            ("@[192.0.2.1]", None),
            ("@example", Some(Danger::Suffix)),
            (".example", Some(Danger::UnderSuffix)),
            ("@com", Some(Danger::Suffix)),
            ("@co.uk", Some(Danger::Suffix)),
            (".co.uk", Some(Danger::UnderSuffix)),
            ("bad.co.uk", None),
            // 中国, as A-label.
            ("@xn--fiqs8s", Some(Danger::Suffix)),
            ("@中国", Some(Danger::Suffix)),
            // 公司.cn
            ("@xn--55qx5d.cn", Some(Danger::Suffix)),
            // A wild card rule: *.ck, but not www.ck.
            ("@any.ck", Some(Danger::Suffix)),
            ("@www.ck", None),
            ("@dynv6.net", None),
            ("@blogspot.com", None),
            (".blogspot.com", Some(Danger::UnderSuffix)),
            (".spam.blogspot.com", None),
            ("@gmail.com", Some(Danger::Freemail)),
            ("GoogleMail.com", Some(Danger::Freemail)),
            (".fastmail.com", Some(Danger::Freemail)),
            // Known by the rules of its provider alone.
            ("@hotmail.ie", Some(Danger::Freemail)),
            ("@notgmail.com", None),
        ] {
            assert_eq!(check(&guard, entry).err(), danger, "{entry}");
        }
    }

    #[test]
    fn nothing_named_is_everybody() {
        let guard = Guard::default();
        for (kind, entry) in [
            (Kind::Mailbox, ""),
            (Kind::Mailbox, "@"),
            (Kind::LocalPart, "@"),
            (Kind::LocalPart, "*@"),
            (Kind::Domain, "@"),
            (Kind::Domain, "@*"),
            (Kind::Subtree, "."),
            (Kind::Subtree, ""),
        ] {
            assert_eq!(
                guard.check(kind, entry.as_bytes()),
                Err(Danger::Everybody),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn protected_domains_stay_out_of_reach() {
        let guard = Guard::new(["own.example"]);
        let protected = Some(Danger::Protected("own.example".to_owned()));
        for (entry, danger) in [
            ("ceo@own.example", &protected),
            ("ceo@mail.own.example", &protected),
            ("@own.example", &protected),
            ("@mail.own.example", &protected),
            (".own.example", &protected),
            ("ceo@notown.example", &None),
            ("@other.example", &None),
            ("ceo@", &None),
        ] {
            assert_eq!(check(&guard, entry).err(), *danger, "{entry}");
        }
        let alone = Guard::of_protected_alone(["own.example"]);
        assert!(
            check(&alone, "@gmail.com").is_ok() && check(&alone, "postmaster@b.example").is_ok()
        );
        assert!(check(&alone, "ceo@own.example").is_err());
        let guard = Guard::new(["mail.own.example"]);
        assert!(check(&guard, ".own.example").is_err());
        assert!(check(&guard, "@own.example").is_ok());
    }

    #[test]
    fn the_table_is_sorted_and_each_domain_stands_once() {
        assert!(FREEMAIL.is_sorted_by(|a, b| a < b));
        assert!(FREEMAIL.len() > 150);
        assert!(!FREEMAIL.iter().any(|domain| is_provider(domain)));
    }
}
