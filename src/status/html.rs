//! What all pages have: escaped text, the beginning and the end.

use std::fmt::{self, Display, Formatter};

use super::times::{MINUTE, time};
use crate::daemon::Page;

const STYLE: &str = include_str!("page.css");

/// Text with its HTML characters escaped.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Returns a page.
pub(super) fn page(body: &dyn Display) -> Page {
    Page {
        code: 200,
        media_type: "text/html; charset=utf-8",
        body: body.to_string(),
    }
}

/// Writes the beginning of a page, up to its header.
pub(super) fn begin(f: &mut Formatter<'_>, title: &str) -> fmt::Result {
    write!(
        f,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>blocklist-milter: {title}</title><style>{STYLE}</style></head><body>"
    )
}

/// Writes the end of a page: how old it is, and where else it is.
pub(super) fn end(f: &mut Formatter<'_>, time_s: u64, page: &str, json: &str) -> fmt::Result {
    write!(
        f,
        "<footer>As of {}; <a href=\"{page}\">load again</a>. The same as <a href=\"{json}\">JSON</a>, figures for \
         <a href=\"/metrics\">Prometheus</a>; in a terminal: blocklist-milter status, blocklist-milter log.</footer></body></html>",
        time(time_s, MINUTE)
    )
}
