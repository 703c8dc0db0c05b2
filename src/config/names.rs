//! The names of all settings.

/// Every setting, by section; `""` is the top of the file. Blanks divide them.
pub const SETTINGS: [(&str, &str); 8] = [
    (
        "",
        "listen socket_mode socket_group workers on_error mixed_recipients contact \
         status_file state sandbox",
    ),
    (
        "list",
        "name filter load check action reply recipients except_recipients mailing_list \
         weak dry_run max_age max_unchanged must_hit enabled",
    ),
    (
        "whitelist",
        "files entries require_dkim authserv_ids correspondents \
         correspondents_require_dkim",
    ),
    ("exempt", "authenticated local networks recipients"),
    (
        "safety",
        "max_reject_share max_shrink max_growth must_miss last_good_mib",
    ),
    ("limits", "connections drain_s read_ms"),
    ("status", "listen group show_addresses"),
    ("log", "level format accepted"),
];
