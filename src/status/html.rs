//! What pages are made of: escaped text, cards, tables, forms, and the frame around them.

use crate::daemon::Page;
use blocklist_filter::base::clock::{MINUTE, local};

const STYLE: &str = include_str!("page.css");

pub(super) fn page_of(media_type: &'static str, body: String) -> Page {
    Page {
        code: 200,
        media_type,
        body,
    }
}

pub(super) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    text.replace('\'', "&#39;")
}

/// Returns a page. It says how old it is, and at which paths it and its JSON are.
pub(super) fn page(
    title: &str,
    header: &str,
    main: &str,
    time_s: u64,
    [page, json]: [&str; 2],
) -> Page {
    let body = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>blocklist-milter: {title}</title><style>{STYLE}</style></head>\
         <body><header>{header}</header><main>{main}</main>\
         <footer>As of {}; <a href=\"{page}\">load again</a>. The same as <a href=\"{json}\">JSON</a>, figures for \
         <a href=\"/metrics\">Prometheus</a>; in a terminal: blocklist-milter status, blocklist-milter log.</footer></body></html>",
        local(time_s, MINUTE)
    );
    page_of("text/html; charset=utf-8", body)
}

/// Returns the header of a page that the page of the status leads to.
pub(super) fn header(heading: &str) -> String {
    format!("<h1>{heading}</h1><span class=\"dim\"><a href=\"/\">back to the status</a></span>")
}

pub(super) fn card(heading: &str, body: &str) -> String {
    let heading = escape(heading);
    format!("<section class=\"card\"><h2>{heading}</h2>{body}</section>")
}

pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

pub(super) fn dim(text: &str) -> String {
    format!("<p class=\"dim\">{}</p>", escape(text))
}

/// Returns a table with the names and classes of its columns, and the HTML of its cells.
pub(super) fn table(
    id: &str,
    columns: &[(&str, &str)],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let heads = columns.iter();
    let heads = heads.map(|(name, class)| format!("<th class=\"{class}\">{name}"));
    let heads: String = heads.collect();
    let mut html = format!("<table id=\"{id}\"><thead><tr>{heads}</tr></thead><tbody>");
    for row in rows {
        html += "<tr>";
        for ((name, class), cell) in columns.iter().zip(row) {
            html += &format!("<td data-name=\"{name}\" class=\"{class}\">{cell}");
        }
        html += "</tr>";
    }
    html + "</tbody></table>"
}
