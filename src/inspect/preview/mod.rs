//! What a list is read as, and what would come of it, without writing a filter.
//!
//! The rows come from the same code as those of a build. For a table the columns, or the paths of
//! JSON, are described as well, and if nothing is declared about it, a declaration is proposed.
//!
//! | file | about |
//! |---|---|
//! | `rows` | the rows of a list, and what becomes of them |
//! | `column` | the values of one column, or of one path of JSON |
//! | `survey` | the columns of a table |
//! | `proposal` | a `[[file]]` for `list.toml`; the only place that uses the meaning of words |
//! | `against` | what would come into a filter, and go |

mod against;
mod column;
mod proposal;
mod rows;
mod survey;

use std::path::{Path, PathBuf};

use crate::compile::guard::Guard;
use crate::compile::{Error, Found, Input, Plan, Progress, begin_input, folder_of, in_its_folder};
use crate::list::{LIST_TOML, ListToml, Refusal, Why};

pub use against::Against;
pub use column::{Column, Value};
pub use proposal::{Proposal, write};
pub use rows::{Outcome, RefusedRow, Rows, Sample};
pub use survey::{Kind, Survey};

/// What would come of a list.
#[derive(Debug)]
pub struct Preview {
    /// Its files, in the order of their numbers.
    pub files: Vec<FilePreview>,
    /// Files that might be meant as lists, and are not read, with the reason.
    pub passed_over: Vec<String>,
    /// What would come into a filter, and go.
    pub against: Option<Against>,
}

/// What would come of one file.
#[derive(Debug)]
pub struct FilePreview {
    /// The file.
    pub file: String,
    /// The folder whose `list.toml` is about it.
    pub folder: PathBuf,
    /// How it is read: the format, and what decided it.
    pub reading: Option<(String, Why)>,
    /// Why nothing of it is read.
    pub refusal: Option<Refusal>,
    /// Its rows, unless they cannot be read.
    pub rows: Option<Rows>,
    /// Its columns, if it is a table.
    pub survey: Option<Survey>,
    /// What to declare, if nothing is declared about it.
    pub proposal: Option<Proposal>,
}

impl FilePreview {
    /// Returns whether nothing of it would be used.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some()
            || self
                .rows
                .as_ref()
                .is_some_and(|rows| rows.refused.is_some())
    }
}

impl Preview {
    /// Returns whether a file is refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.files.iter().any(FilePreview::is_refused)
    }
}

/// Reads a file, or the files of a folder, as a build of the folder would. `plan` has what options
/// say; `against` is a filter to compare with.
///
/// # Errors
/// When a file cannot be read, `list.toml` has faults, or the filter cannot be compared.
pub fn preview(
    path: &Path,
    plan: &mut Plan,
    against: Option<&Path>,
    progress: &Progress,
) -> Result<Preview, Error> {
    let Found {
        lists, passed_over, ..
    } = in_its_folder(path, &plan.declared)?;
    let folder = if path.is_dir() { path } else { folder_of(path) };
    let list_toml = ListToml::of_folder(folder)?.unwrap_or_default();
    let mut keys = match against {
        Some(filter) => against::Keys::of_filter(filter, plan)?,
        None => against::Keys::default(),
    };
    let guard = plan.guard()?;
    let mut files = Vec::with_capacity(lists.len());
    for input in &lists {
        let mut file = file(input, plan, guard.as_ref(), &mut keys, progress)?;
        file.folder = folder.to_owned();
        let name = file_name(&input.label());
        if let Some(survey) = &file.survey
            && file.refusal.is_some()
            && !list_toml.has_file(&name)
        {
            file.proposal = Some(Proposal::new(&name, survey, file.refusal.as_ref()));
        }
        files.push(file);
    }
    Ok(Preview {
        files,
        passed_over,
        against: against.map(|_| keys.compare()).transpose()?,
    })
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Reads one file.
fn file(
    input: &Input,
    plan: &Plan,
    guard: Option<&Guard>,
    keys: &mut against::Keys,
    progress: &Progress,
) -> Result<FilePreview, Error> {
    let failed = || Error::io(&input.path, "read");
    let begun = begin_input(input, progress).map_err(failed())?;
    let mut preview = FilePreview {
        file: input.shown(),
        folder: PathBuf::new(),
        reading: None,
        refusal: None,
        rows: None,
        survey: None,
        proposal: None,
    };
    let shape = survey::shape(&begun.head, &input.declared);
    match &begun.reading {
        Ok(reading) => {
            preview.reading = Some((reading.format.to_string(), reading.why));
            let reading = reading.clone();
            let mut sink = rows::Sink::new(plan, guard, keys, input.shown());
            let rows = rows::read(begun, &reading, &mut sink);
            preview.rows = Some(rows.map_err(failed())?);
        }
        Err(refusal) => preview.refusal = Some(refusal.clone()),
    }
    if let Some(shape) = shape {
        let again = begin_input(input, progress).map_err(failed())?;
        preview.survey = Some(survey::survey(again, shape).map_err(failed())?);
    }
    Ok(preview)
}

/// Returns the path of the `list.toml` that is about a file.
#[must_use]
pub fn list_toml_of(file: &FilePreview) -> PathBuf {
    file.folder.join(LIST_TOML)
}
