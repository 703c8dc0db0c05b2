//! Charts of messages over time: inline SVG, with the same figures in a table for screen readers.
//!
//! A bar is the messages a minute, over the time of it in which messages were counted: the current
//! bar has only begun, and the daemon may have been away. Times without data are shaded. The SVG
//! contains no text, because text would shrink with it.

use super::history::{DAY_S, Minute};
use super::html::{card, dim, table};
use super::report::Report;
use super::words::{GROUPS, grouped, groups};
use blocklist_filter::base::clock::local;

const CLASSES: [&str; 3] = ["acc", "mark", "ref"];
const HEIGHT: f64 = 100.0;

struct Chart<'a> {
    heading: &'a str,
    report: &'a Report,
    steps: &'a [Minute],
    /// Number of bars, and the seconds of each.
    bars: u64,
    bar_s: u64,
    row_bars: u64,
    /// How times are shown at the axis.
    how: &'a str,
}

#[derive(Clone, Copy, Default)]
struct Bar {
    counts: [u64; 3],
    /// Seconds in which messages were counted.
    covered_s: u64,
}

impl Bar {
    fn a_minute(self, count: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "for the eye")]
        let (count, minutes) = (count as f64, self.covered_s.max(1) as f64 / 60.0);
        count / minutes.max(1.0)
    }
}

pub(super) fn charts(report: &Report) -> String {
    let day = Chart {
        heading: "Messages a minute, last 24 hours",
        report,
        steps: &report.minutes,
        bars: 288,
        bar_s: 300,
        row_bars: 12,
        how: "%H:%M",
    };
    let month = Chart {
        heading: "Messages a minute, last 30 days",
        report,
        steps: &report.hours,
        bars: 120,
        bar_s: DAY_S / 4,
        row_bars: 4,
        how: "%m-%d",
    };
    day.html() + &month.html()
}

impl Chart<'_> {
    fn start_s(&self, bar: u64) -> u64 {
        (self.report.time_s / self.bar_s + 1 + bar).saturating_sub(self.bars) * self.bar_s
    }

    fn bars(&self) -> Vec<Bar> {
        let bar = |number| {
            let (from_s, to_s) = (self.start_s(number), self.start_s(number + 1));
            let periods = self.report.periods.iter();
            let covered =
                periods.map(|(first, last)| to_s.min(*last).saturating_sub(from_s.max(*first)));
            let steps = self.steps.iter();
            Bar {
                counts: groups(steps.filter(|step| (from_s..to_s).contains(&step.time_s))),
                covered_s: covered.sum(),
            }
        };
        (0..self.bars).map(bar).collect()
    }

    fn html(&self) -> String {
        let bars = self.bars();
        let all = |bar: &Bar| bar.a_minute(bar.counts.iter().sum());
        let most = bars.iter().map(all).fold(0.0, f64::max);
        let heading = self.heading;
        let mut html = dim(&format!(
            "Highest: {} a minute. Grey: no data.",
            (most * 10.0).round() / 10.0
        ));
        html += &format!(
            "<svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{heading}; the table below has the figures\">",
            self.bars
        );
        for (x, bar) in bars.iter().enumerate() {
            html += &rectangles(x, *bar, most);
        }
        html += "</svg><div class=\"axis\">";
        for quarter in 0..4 {
            let at = self.start_s(self.bars * quarter / 4);
            html += &format!("<span>{}</span>", local(at, self.how));
        }
        let now_s = self.report.time_s;
        html += &format!(
            "<span>{} {}</span></div><div class=\"key\">",
            local(now_s, self.how),
            local(now_s, "%Z")
        );
        for (class, group) in CLASSES.iter().zip(GROUPS).rev() {
            html += &format!("<span><i class=\"{class}\"></i>{group}</span>");
        }
        html += &format!(
            "</div><details><summary>Figures</summary>{}</details>",
            self.table(&bars)
        );
        card(heading, &html)
    }

    fn table(&self, bars: &[Bar]) -> String {
        let from = local(self.report.time_s, "From (%Z)");
        let [accepted, marked, refused] = GROUPS.map(|group| (group, "n"));
        let rows = (0..).zip(bars.chunks(usize::try_from(self.row_bars).unwrap_or(1)));
        let rows = rows.filter(|(_, row)| row.iter().any(|bar| bar.covered_s > 0));
        let rows = rows.map(|(number, row)| {
            let at = local(self.start_s(number * self.row_bars), "%F %H:%M");
            let count = |index: usize| row.iter().filter_map(|bar| bar.counts.get(index)).sum();
            vec![at, grouped(count(0)), grouped(count(1)), grouped(count(2))]
        });
        table("", &[(&from, ""), accepted, marked, refused], rows)
    }
}

/// Returns the parts of a bar, from below.
fn rectangles(x: usize, bar: Bar, most: f64) -> String {
    let rectangle = |class, top: f64, width, height: f64| {
        format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{top:.2}\" width=\"{width}\" height=\"{height:.2}\"/>"
        )
    };
    let mut all = String::new();
    if bar.covered_s == 0 {
        all += &rectangle("none", 0.0, "1", HEIGHT);
    }
    let mut top = HEIGHT;
    let parts = bar.counts.into_iter().zip(CLASSES);
    for (count, class) in parts.filter(|(count, _)| *count > 0) {
        // High enough to be visible.
        let height = (bar.a_minute(count) / most * HEIGHT).max(1.0);
        top = (top - height).max(0.0);
        all += &rectangle(class, top, ".9", height);
    }
    all
}
