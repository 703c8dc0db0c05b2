//! The matrix of an [`Overlap`] as an SVG picture.
//!
//! ```text
//!                  list 1   list 2   list 3       nowhere else
//!     list 1       ------    40.0 %   60.1 %        1.5 %
//!     12 entries            319,924  480,434       12,345
//! ```
//!
//! The stronger the colour of a cell, the more of the row's list is also in the column's list. The
//! colours are CSS classes, with a second set for a dark background; a viewer without support for
//! style sheets shows the light set. Tool tips show full names.

use std::fmt::Write as _;

use super::overlap::{Overlap, shortened};
use crate::base::numbers::{counted, grouped};

const CELL_WIDTH: usize = 92;
const CELL_HEIGHT: usize = 52;
/// Space between the matrix and the column "nowhere else".
const GAP: usize = 18;
const MARGIN: usize = 24;
/// Height of the title and the line below it.
const TITLE_HEIGHT: usize = 64;
const LEGEND_HEIGHT: usize = 64;
const NAME_CHARS: usize = 30;
/// Width of an average character of names, in tenths of a pixel.
const CHAR_WIDTH_TENTHS: usize = 75;
/// From this fraction on, the text of a cell is dark on a dark background too, since the cell is
/// light there.
const HALF: f64 = 0.5;
/// From this fraction on, the text of a cell is light on a light background.
const FULL: f64 = 0.78;

const STYLE: &str = "<style>
text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 13px; }
.ground { fill: #ffffff; } .ink { fill: #1f2328; } .faint { fill: #636c76; } .half { fill: #1f2328; } .full { fill: #ffffff; }
.title { font-size: 18px; font-weight: 600; } .small { font-size: 11px; }
.shared { fill: #1f5fa8; } .alone { fill: #1a7f4b; } .self { fill: #eaeef2; } .frame { fill: none; stroke: #d0d7de; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } .ink { fill: #e6edf3; } .faint { fill: #9198a1; } .half { fill: #0d1117; } .full { fill: #0d1117; }
.shared { fill: #6cb0ff; } .alone { fill: #56d393; } .self { fill: #21262d; } .frame { fill: none; stroke: #3d444d; }
}
</style>
";

impl Overlap {
    /// Returns the matrix as a picture.
    pub fn svg(&self) -> String {
        let names: Vec<_> = self
            .names
            .iter()
            .map(|name| shortened(name, NAME_CHARS))
            .collect();
        let longest = names.iter().map(|name| name.chars().count()).max();
        let entries = self.entries.iter().map(|n| entries_of(*n).len()).max();
        let left_chars = longest.max(entries).unwrap_or(0);
        let side = names.len() * CELL_WIDTH;
        // The names of columns are rotated by 45 degrees.
        let aslant = |chars: usize| chars * CHAR_WIDTH_TENTHS * 71 / 1000 + 10;
        let mut heads: Vec<_> = (0..)
            .step_by(CELL_WIDTH)
            .zip(names.iter().map(|name| name.chars().count()))
            .collect();
        if self.alone.is_some() {
            heads.push((side + GAP, NOWHERE_ELSE.len()));
        }
        let highest = heads.iter().map(|(_, chars)| aslant(*chars)).max();
        let ends = heads
            .iter()
            .map(|(x, chars)| x + CELL_WIDTH.max(CELL_WIDTH / 2 + aslant(*chars)));
        let matrix_width = ends.max().unwrap_or(0);
        let mut picture = Picture {
            left: MARGIN + left_chars * CHAR_WIDTH_TENTHS / 10 + 12,
            top: TITLE_HEIGHT + highest.unwrap_or(0),
            svg: String::new(),
        };
        let width = (picture.left + matrix_width + MARGIN).max(MIN_WIDTH);
        let height = picture.top + names.len() * CELL_HEIGHT + LEGEND_HEIGHT;
        let _ = write!(
            picture.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">
<title>Entries that lists share</title>
{STYLE}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>
<text class=\"ink title\" x=\"{MARGIN}\" y=\"34\">Entries that lists share</text>
<text class=\"faint\" x=\"{MARGIN}\" y=\"54\">Each row: what part of its list the other lists have too</text>
"
        );
        for (i, name) in names.iter().enumerate() {
            let full = xml(&self.names[i]);
            picture.row_name(i, &full, &xml(name), &entries_of(self.entries[i]));
            picture.column_name(i * CELL_WIDTH, &full, &xml(name));
            for j in 0..names.len() {
                let x = j * CELL_WIDTH;
                if i == j {
                    picture.empty_cell(x, i);
                } else {
                    let about =
                        format!("{} of {full} in {}", self.shared[i][j], xml(&self.names[j]));
                    picture.cell(x, i, "shared", self.part(i, j), self.shared[i][j], &about);
                }
            }
            if let Some(alone) = &self.alone {
                let about = format!("{} of {full} in no other of these lists", alone[i]);
                let part = self.part_of(alone[i], i);
                picture.cell(side + GAP, i, "alone", part, alone[i], &about);
            }
        }
        if self.alone.is_some() {
            picture.column_name(
                side + GAP,
                "Entries that no other of these lists has",
                NOWHERE_ELSE,
            );
        }
        picture.legend(height - LEGEND_HEIGHT + 24, self.exact);
        picture.svg + "</svg>\n"
    }
}

const NOWHERE_ELSE: &str = "nowhere else";
/// Minimum width: the title must fit.
const MIN_WIDTH: usize = 440;
const LEGEND_STEPS: usize = 5;

fn entries_of(entries: u64) -> String {
    counted(entries, "entry", "entries")
}

/// A picture that is being drawn: the origin of the matrix, and the SVG text so far.
struct Picture {
    left: usize,
    top: usize,
    svg: String,
}

impl Picture {
    fn row_name(&mut self, row: usize, full: &str, name: &str, entries: &str) {
        let (x, y) = (
            self.left - 12,
            self.top + row * CELL_HEIGHT + CELL_HEIGHT / 2,
        );
        let _ = writeln!(
            self.svg,
            "<g text-anchor=\"end\"><title>{full}</title><text class=\"ink\" x=\"{x}\" y=\"{}\">{name}</text><text class=\"faint small\" x=\"{x}\" y=\"{}\">{entries}</text></g>",
            y - 2,
            y + 14
        );
    }

    fn column_name(&mut self, x: usize, full: &str, name: &str) {
        let (x, y) = (self.left + x + CELL_WIDTH / 2, self.top - 10);
        let _ = writeln!(
            self.svg,
            "<g transform=\"translate({x} {y}) rotate(-45)\"><title>{full}</title><text class=\"ink\">{name}</text></g>"
        );
    }

    fn empty_cell(&mut self, x: usize, row: usize) {
        let (x, y) = (self.left + x, self.top + row * CELL_HEIGHT);
        let _ = writeln!(
            self.svg,
            "<rect class=\"self\" x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\"/>"
        );
    }

    /// Draws a cell in the colour of a class, with the opacity `part`.
    fn cell(&mut self, x: usize, row: usize, class: &str, part: f64, entries: u64, about: &str) {
        let (x, y) = (self.left + x, self.top + row * CELL_HEIGHT);
        let middle = x + CELL_WIDTH / 2;
        let ink = if part >= FULL {
            "full"
        } else if part >= HALF {
            "half"
        } else {
            "ink"
        };
        let _ = writeln!(
            self.svg,
            "<g text-anchor=\"middle\"><title>{about}</title><rect class=\"{class}\" fill-opacity=\"{part:.3}\" x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\"/><rect class=\"frame\" x=\"{x}.5\" y=\"{y}.5\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\"/><text class=\"{ink}\" x=\"{middle}\" y=\"{}\">{:.1} %</text><text class=\"{ink} small\" x=\"{middle}\" y=\"{}\">{}</text></g>",
            y + CELL_HEIGHT / 2 - 2,
            part * 100.0,
            y + CELL_HEIGHT / 2 + 14,
            grouped(entries)
        );
    }

    #[allow(clippy::cast_precision_loss, reason = "a few steps")]
    fn legend(&mut self, y: usize, exact: bool) {
        let mut x = MARGIN;
        for step in 0..=LEGEND_STEPS {
            let part = step as f64 / LEGEND_STEPS as f64;
            let _ = write!(
                self.svg,
                "<rect class=\"shared\" fill-opacity=\"{part:.2}\" x=\"{x}\" y=\"{y}\" width=\"28\" height=\"12\"/><rect class=\"frame\" x=\"{x}.5\" y=\"{y}.5\" width=\"28\" height=\"12\"/>"
            );
            x += 28;
        }
        let _ = writeln!(
            self.svg,
            "<text class=\"faint small\" x=\"{}\" y=\"{}\">none to all of it{}</text>",
            x + 8,
            y + 10,
            if exact {
                ""
            } else {
                "; estimated where records are missing"
            }
        );
    }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap() -> Overlap {
        Overlap {
            names: vec!["a<b".into(), "c".into()],
            entries: vec![10, 0],
            shared: vec![vec![10, 3], vec![3, 0]],
            alone: Some(vec![7, 0]),
            exact: true,
            error: 0,
        }
    }

    #[test]
    fn the_picture_is_well_formed_and_escaped() {
        let svg = overlap().svg();
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert!(svg.contains("30.0 %") && svg.contains("70.0 %") && svg.ends_with("</svg>\n"));
        // Every element is closed, in the reverse order of opening.
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap();
            let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn long_names_are_cut_and_said_in_full() {
        let name = "x".repeat(300);
        let svg = Overlap {
            names: vec![name.clone(), "c".into()],
            ..overlap()
        }
        .svg();
        assert!(svg.contains(&format!("<title>{name}</title>")));
        assert!(svg.contains(&format!(">{}...</text>", "x".repeat(NAME_CHARS - 3))));
    }

    #[test]
    fn the_table_says_the_same() {
        let table = overlap().to_string();
        for part in ["30.0 %", "70.0 %", "nowhere else", " 1 a<b", " 2 c"] {
            assert!(table.contains(part), "{table}");
        }
    }
}
