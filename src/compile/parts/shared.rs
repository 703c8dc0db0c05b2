//! Joins the pages of all shares of a merge into the filter that one merge would give.
//!
//! Pages and records are copied unchanged; sums, directory and header are made from those of all shares. The limits for
//! shrinking and growth apply here, because only this step knows which filter is replaced.

use std::path::Path;
use std::time::Instant;

use super::judge;
use super::pieces::{Expected, Known, refused};
use super::totals::{Present, Totals, differs, other_day};
use crate::address::{RULES_VERSION, Rules};
use crate::base::numbers::grouped;
use crate::base::replacement::Replacement;
use crate::compile::lineage::{Lineage, check_not_input};
use crate::compile::report::{FilterReport, Report};
use crate::compile::{Error, Phase, Plan, Progress, Seed};
use crate::filter::{PagesHead, ShareKind, SharedPages, Spec, Writer};
use crate::lookup;

/// Joins the pages of all shares, which are the inputs of `plan`, into the filter that is its output. They
/// must have been made for the rate `fpr`, if one is given.
///
/// # Errors
/// A share is missing, belongs to another merge, or exists twice with different content; or the filter cannot be written.
pub fn join_shares(
    plan: &Plan,
    fpr: Option<f64>,
    expected: &Expected,
    progress: &Progress,
) -> Result<Report, Error> {
    let started = Instant::now();
    plan.check_settings()?;
    let replacement = Replacement::claim(&plan.output)?;
    let (paths, head) = shares_of(plan, fpr, progress)?;
    check_not_input(&plan.output, &plan.inputs)?;
    let pieces = head.pieces.iter();
    expected.check(std::iter::once(Known {
        path: paths[0],
        pieces: pieces
            .map(|(name, digest)| (name.as_str(), *digest))
            .collect(),
        sources: &head.header.spec.sources,
    }))?;
    let made_for = &head.header.spec;
    let lineage = Lineage::of(&plan.output, &Seed::Fixed(made_for.seed), plan.overwrite)?;
    let spec = Spec {
        name: plan.name.clone(),
        generation: lineage.generation,
        built: plan.built,
        ..made_for.clone()
    };
    let Totals {
        counts, expired, ..
    } = Totals::sums(&head.sources, false);
    let mut report = judge(plan, &lineage.before, &spec, &counts, &expired);
    if report.refused.is_some() {
        return Ok(report);
    }
    let (entries, shape) = (head.header.entries, head.header.shape);
    progress.begin(Phase::Writing, entries);
    let mut writer = Writer::begin(replacement, spec, entries, shape)?;
    for path in paths {
        let share = SharedPages::open(path)?;
        // The file may have been replaced in between.
        check_like(&share, path, &head)?;
        writer.append_share(&share, |pages| {
            progress.go_on()?;
            progress.add(pages.saturating_mul(entries / shape.pages));
            Ok::<_, Error>(())
        })?;
    }
    progress.begin(Phase::Checking, 0);
    let header = writer.finish()?;
    report.filter = Some(FilterReport::new(&header, &plan.output));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// The files of all shares, in the order of their pages, and the head of the first file on the command line.
fn shares_of<'a>(
    plan: &'a Plan,
    fpr: Option<f64>,
    progress: &Progress,
) -> Result<(Vec<&'a Path>, PagesHead), Error> {
    let mut present = Present::new(ShareKind::Pages);
    let mut first: Option<(&Path, PagesHead)> = None;
    let mut entries = 0_u64;
    for path in &plan.inputs {
        progress.go_on()?;
        let share = SharedPages::open(path)?;
        let head = &share.head;
        if let Some(other) = present.add(path, head.share)? {
            if SharedPages::open(other)?.head != *head {
                return Err(differs(path, other, head.share));
            }
            continue;
        }
        match &first {
            Some((other, like)) => check_like(&share, other, like)?,
            None => check_usable(&share, plan, fpr)?,
        }
        entries = entries.saturating_add(head.body.entries);
        first.get_or_insert_with(|| (path, share.head));
    }
    let Some((_, head)) = first else {
        return Err(Error::Plan("no share to merge".to_owned()));
    };
    let paths = present.all()?;
    let declared = head.header.entries;
    if entries != declared {
        return Err(Error::Unlike(format!(
            "the shares have {} entries together, but {} were counted; make all counts and pages again",
            grouped(entries),
            grouped(declared)
        )));
    }
    Ok((paths, head))
}

/// Checks that a filter can be made from this share as the plan requires.
fn check_usable(share: &SharedPages, plan: &Plan, fpr: Option<f64>) -> Result<(), Error> {
    let spec = &share.head.header.spec;
    if spec.rules_version != RULES_VERSION || Rules::from_bits(spec.rules).is_none() {
        return Err(Error::Lookup(lookup::Error::Rules {
            path: share.path().to_owned(),
            found: spec.rules_version,
            options: spec.rules,
        }));
    }
    let day = share.head.basis.day;
    if day != plan.today().0 {
        return Err(other_day(share.path(), day, plan.today().0));
    }
    match fpr {
        Some(fpr) if fpr.to_bits() != spec.fpr.to_bits() => Err(refused(
            share.path(),
            &format!(
                "made for the rate {:e}; leave --fpr out, or make all pages again with --fpr {fpr:e}",
                spec.fpr
            ),
        )),
        _ => Ok(()),
    }
}

/// Checks that two shares belong to the same merge.
fn check_like(share: &SharedPages, other: &Path, like: &PagesHead) -> Result<(), Error> {
    let head = &share.head;
    let path = share.path();
    let other = other.display();
    let spec = (&head.header.spec, &like.header.spec);
    if head.basis.parts != like.basis.parts {
        return Err(refused(
            path,
            &format!("made of other parts than {other}; make it again of the same"),
        ));
    }
    if head.basis.day != like.basis.day {
        return Err(other_day(path, head.basis.day, like.basis.day));
    }
    if spec.0.fpr.to_bits() != spec.1.fpr.to_bits() {
        return Err(refused(
            path,
            &format!(
                "made for the rate {:e}, but {other} for {:e}; give all shares the same --fpr",
                spec.0.fpr, spec.1.fpr
            ),
        ));
    }
    if !head.is_of_merge(like) {
        return Err(refused(
            path,
            &format!("made with other counts than {other}; make it again with the same"),
        ));
    }
    Ok(())
}
