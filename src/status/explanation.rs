//! What would happen to mail from an address, on a page: asked with the filters in effect.

use std::fmt::{self, Display, Formatter};

use super::html;
use super::html::{Text, begin, end};
use super::source::Status;
use crate::base::clock::now_s;
use crate::daemon::Page;

/// An address, and the text about it.
struct ExplanationPage(String, String);

impl Status {
    /// Returns the page about the address in the query of a URL; `explain` looks it up. There is none if
    /// the configuration does not allow to show addresses.
    pub fn explanation(&self, query: &str, explain: impl FnOnce(&str) -> String) -> Page {
        if !self.live.snapshot().config.status.show_addresses {
            let why = "addresses are not shown: show_addresses in [status] is off; in a terminal: blocklist-milter explain ADDRESS\n";
            return Page::text(403, why);
        }
        let mut fields = form_urlencoded::parse(query.as_bytes());
        let address = fields.find(|(name, _)| name == "address");
        let address = address.map_or_else(String::new, |(_, address)| address.trim().to_owned());
        let text = match &*address {
            "" => String::new(),
            address => explain(address),
        };
        html::page(&ExplanationPage(address, text))
    }
}

impl Display for ExplanationPage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(address, text) = self;
        begin(f, "an address")?;
        write!(
            f,
            "<header><h1>An address</h1><span class=\"dim\"><a href=\"/\">back to the status</a></span></header><main>\
             <section class=\"card\">"
        )?;
        form(f, address)?;
        if !text.is_empty() {
            write!(f, "<pre id=\"explanation\">{}</pre>", Text(text))?;
        }
        write!(f, "</section></main>")?;
        end(f, now_s(), "/explain", "/status.json")
    }
}

/// Writes the form that asks about an address.
pub(super) fn form(f: &mut Formatter<'_>, address: &str) -> fmt::Result {
    write!(
        f,
        "<form action=\"/explain\"><label>Address <input name=\"address\" value=\"{}\"></label>\
         <button>Would its mail be refused?</button></form>",
        Text(address)
    )
}
