//! Reads of files, which other threads do: no thread that serves mail waits for a disk.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::config::READ_PATIENCE;
use crate::daemon::{Job, Readers};
use blocklist_filter::base::lock::lock;
use blocklist_filter::filter::Answer;
use blocklist_filter::lookup::{Error, Read};

/// An answer to each read.
pub(super) type Answers = Vec<(Read, Result<Answer, Error>)>;

/// Other threads that read.
pub trait Reader: Send + Sync {
    /// Has a job done soon; `false` if that is not possible, because the disk hangs.
    fn submit(&self, job: Arc<dyn Job>) -> bool;

    /// How long a step of a message waits for its reads.
    fn patience(&self) -> Duration {
        READ_PATIENCE
    }
}

impl Reader for Readers {
    fn submit(&self, job: Arc<dyn Job>) -> bool {
        self.submit(job)
    }
}

/// Reads of one filter. One that hangs does not delay the answers of other filters.
#[derive(Debug, Default)]
struct Batch {
    reads: Vec<Read>,
    can_wait: bool,
    state: Mutex<State>,
    /// Nobody waits for it any more.
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Those for the first reads, in their order.
    answers: Vec<Result<Answer, Error>>,
    /// There will be no more.
    is_over: bool,
    waker: Option<Waker>,
}

impl Job for Batch {
    fn run(&self) {
        let _over = Over(self);
        for read in &self.reads {
            let answer = read.answer();
            if self.is_abandoned() {
                return;
            }
            lock(&self.state).answers.push(answer);
        }
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }

    fn disk(&self) -> usize {
        self.reads
            .first()
            .map_or(0, |read| Arc::as_ptr(read.filter()).addr())
    }

    /// Its message has had many look-ups already.
    fn can_wait(&self) -> bool {
        self.can_wait
    }
}

/// Ends a batch, even if a read panics.
struct Over<'a>(&'a Batch);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_over = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// A batch for which somebody waits. Dropping it cancels the reads.
#[derive(Debug)]
pub(super) struct Pending(Arc<Batch>);

impl Pending {
    /// Has these reads done, one batch for each filter.
    pub(super) fn submit(mut reads: Vec<Read>, can_wait: bool, reader: &dyn Reader) -> Vec<Self> {
        reads.sort_by_key(|read| Arc::as_ptr(read.filter()));
        let batches = reads.chunk_by(|a, b| Arc::ptr_eq(a.filter(), b.filter()));
        let submit = |reads: &[Read]| {
            let batch = Arc::new(Batch {
                reads: reads.to_vec(),
                can_wait,
                ..Batch::default()
            });
            if !reader.submit(Arc::clone(&batch) as _) {
                lock(&batch.state).is_over = true;
            }
            Self(batch)
        };
        batches.map(submit).collect()
    }

    /// Ready when the reads are done.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0.state);
        if state.is_over {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Adds the answers; those that are missing are late.
    pub(super) fn take(self, answers: &mut Answers) {
        let done = take(&mut lock(&self.0.state).answers).into_iter();
        let late = std::iter::repeat_with(|| Err(Error::NotInTime));
        answers.extend(self.0.reads.iter().cloned().zip(done.chain(late)));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A reader that is about to finish does not hang.
        if !lock(&self.0.state).is_over {
            self.0.abandoned.store(true, Relaxed);
        }
    }
}
