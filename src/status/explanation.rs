//! What would happen to mail from an address, on a page: asked with the filters in effect.

use super::html::{self, Text, header};
use super::source::Status;
use crate::base::clock::now_s;
use crate::daemon::Page;

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
        let mut main = form(&address);
        if !address.is_empty() {
            let text = explain(&address);
            main += &format!("<pre id=\"explanation\">{}</pre>", Text(&text));
        }
        let main = format!("<section class=\"card\">{main}</section>");
        let paths = ["/explain", "/status.json"];
        html::page("an address", &header("An address"), &main, now_s(), paths)
    }
}

/// Returns the form that asks about an address.
pub(super) fn form(address: &str) -> String {
    format!(
        "<form action=\"/explain\"><label>Address <input name=\"address\" value=\"{}\"></label>\
         <button>Would its mail be refused?</button></form>",
        Text(address)
    )
}
