//! A few threads for reads that may take long, so that threads that serve mail never wait for a disk.
//!
//! ```text
//!   worker --submit--> queue (bounded) --> reader 1..n --> Job::run
//! ```
//!
//! A disk that hangs blocks only the readers that wait for it, at most half of all, and its jobs in the queue. A job that
//! nobody needs any more is dropped. While as many readers as may hang in such jobs, no others of this disk are accepted.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};

use super::start_thread;
use blocklist_filter::base::lock::{lock, wait};

/// Most jobs that wait for a reader. A connection has only a few jobs at a time, so only a disk that hangs fills the queue.
const QUEUE_MAX: usize = 1024;

/// What a reader does.
pub trait Job: Send + Sync {
    /// Reads, and tells the one who waits.
    fn run(&self);

    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;

    /// The number of its disk, which the caller chooses: the same for all jobs that may hang together.
    fn disk(&self) -> usize;

    /// Whether other jobs come first.
    fn can_wait(&self) -> bool;
}

/// A few threads that read.
pub struct Readers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<dyn Job>>,
    running: Vec<Option<Arc<dyn Job>>>,
    closed: bool,
}

impl Shared {
    fn read(&self, reader: usize) {
        let mut state = lock(&self.state);
        loop {
            let Some(job) = state.next() else {
                if state.closed {
                    return;
                }
                state = wait(&self.work, state);
                continue;
            };
            state.running[reader] = Some(Arc::clone(&job));
            drop(state);
            if catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
                tracing::error!("internal error: a read failed");
            }
            drop(job);
            state = lock(&self.state);
            state.running[reader] = None;
            // Another job for this disk may be waiting, and this reader may take a job for another disk.
            self.work.notify_one();
        }
    }
}

impl State {
    /// The first job of a disk that has not reached its share of the readers; one that can wait only if there is no other.
    fn next(&mut self) -> Option<Arc<dyn Job>> {
        self.queue.retain(|job| !job.is_abandoned());
        let has_room = |job: &Arc<dyn Job>| {
            self.readers_in(|running| running.disk() == job.disk()) < self.share()
        };
        let is_first = |job: &Arc<dyn Job>| !job.can_wait() && has_room(job);
        let next = (self.queue.iter().position(is_first))
            .or_else(|| self.queue.iter().position(has_room))?;
        self.queue.remove(next)
    }

    /// How many readers have a current job that meets this condition.
    fn readers_in(&self, such: impl Fn(&dyn Job) -> bool) -> usize {
        let running = self.running.iter().flatten();
        running.filter(|running| such(&***running)).count()
    }

    /// How many readers may read the same disk at a time.
    fn share(&self) -> usize {
        self.running.len().div_ceil(2)
    }

    /// Whether no reader is left for this disk, because all hang in jobs that are no longer needed.
    fn is_stuck(&self, disk: usize) -> bool {
        self.readers_in(|job| job.is_abandoned() && job.disk() == disk) >= self.share()
            || self.readers_in(|job| job.is_abandoned()) >= self.running.len()
    }
}

impl Readers {
    /// Starts this many threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(threads: usize) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        // Created first, so that the threads end if a later one cannot be started.
        let readers = Self {
            shared: Arc::clone(&shared),
        };
        lock(&shared.state).running.resize_with(threads, || None);
        for reader in 0..threads {
            let shared = Arc::clone(&shared);
            let name = format!("reader {}", reader + 1);
            start_thread(name, move || shared.read(reader))?;
        }
        Ok(readers)
    }

    /// Has a job done soon, after all others if it can wait; `false` if its disk hangs or the queue is full. Jobs that can
    /// wait leave half of the queue free.
    pub fn submit(&self, job: Arc<dyn Job>) -> bool {
        let mut state = lock(&self.shared.state);
        let most = match job.can_wait() {
            true => QUEUE_MAX / 2,
            false => QUEUE_MAX,
        };
        if state.queue.len() >= most {
            state.queue.retain(|job| !job.is_abandoned());
        }
        let fits = state.queue.len() < most && !state.is_stuck(job.disk());
        if fits {
            state.queue.push_back(job);
            self.shared.work.notify_one();
        }
        fits
    }
}

impl Drop for Readers {
    /// The threads end by themselves; this does not wait for one that hangs.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        state.queue.clear();
        self.shared.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread::sleep;
    use std::time::Duration;

    /// Ends as soon as the test says so.
    #[derive(Default)]
    struct Hanging {
        disk: usize,
        can_wait: bool,
        has_begun: AtomicBool,
        may_end: AtomicBool,
        is_abandoned: AtomicBool,
    }

    impl Job for Hanging {
        fn run(&self) {
            self.has_begun.store(true, Relaxed);
            wait_for(&self.may_end);
        }

        fn is_abandoned(&self) -> bool {
            self.is_abandoned.load(Relaxed)
        }

        fn disk(&self) -> usize {
            self.disk
        }

        fn can_wait(&self) -> bool {
            self.can_wait
        }
    }

    impl Hanging {
        /// Waits until a reader is at it.
        fn begins(&self) {
            wait_for(&self.has_begun);
        }

        fn abandon(&self) {
            self.is_abandoned.store(true, Relaxed);
        }

        fn end(&self) {
            self.may_end.store(true, Relaxed);
        }
    }

    fn wait_for(sign: &AtomicBool) {
        while !sign.load(Relaxed) {
            sleep(Duration::from_millis(1));
        }
    }

    /// `None`: it was not accepted.
    fn submit(readers: &Readers, disk: usize, can_wait: bool) -> Option<Arc<Hanging>> {
        let job = Arc::new(Hanging {
            disk,
            can_wait,
            ..Hanging::default()
        });
        let accepted = readers.submit(Arc::clone(&job) as _);
        accepted.then_some(job)
    }

    #[test]
    fn a_disk_that_hangs_costs_its_own_readers_and_no_more() {
        let readers = Readers::start(4).expect("threads");
        let hang = |disk| submit(&readers, disk, false).expect("it is accepted");
        let (first, second) = (hang(1), hang(1));
        first.begins();
        second.begins();
        // These two are the disk's share of readers, and somebody waits for them: the queue accepts more.
        let third = hang(1);
        // The other readers serve other disks.
        let other = hang(2);
        other.begins();
        assert!(!third.has_begun.load(Relaxed));
        assert_eq!(lock(&readers.shared.state).queue.len(), 1);
        // Now all readers of its share hang: no job is accepted, except for other disks.
        for gone in [&first, &second, &third] {
            gone.abandon();
        }
        assert!(submit(&readers, 1, false).is_none());
        let another = hang(3);
        another.begins();
        // These hang, too: no reader is left.
        other.abandon();
        another.abandon();
        assert!(submit(&readers, 4, false).is_none());
        // The disks answer again.
        for back in [first, second, other, another] {
            back.end();
        }
        for disk in [1, 2, 3] {
            let again = || submit(&readers, disk, false);
            let again = std::iter::repeat_with(again).flatten().next();
            let again = again.expect("endless");
            again.begins();
            again.end();
        }
    }

    /// A flood of messages with thousands of senders each.
    #[test]
    fn what_can_wait_comes_last_and_leaves_room() {
        let readers = Readers::start(1).expect("threads");
        let running = submit(&readers, 1, false).expect("there is room");
        running.begins();
        let all = |can_wait| -> Vec<Arc<Hanging>> {
            std::iter::from_fn(|| submit(&readers, 1, can_wait)).collect()
        };
        let patient = all(true);
        assert_eq!(patient.len(), QUEUE_MAX / 2);
        let other = all(false);
        assert_eq!(other.len(), QUEUE_MAX / 2);
        running.end();
        other[0].begins();
        assert!(!patient[0].has_begun.load(Relaxed));
        // Cancelled jobs free space in the queue.
        other[1..].iter().for_each(|one| one.abandon());
        assert!(submit(&readers, 1, true).is_none());
        patient[10..].iter().for_each(|one| one.abandon());
        assert!(submit(&readers, 1, true).is_some());
        assert_eq!(lock(&readers.shared.state).queue.len(), 11);
        other[0].end();
        patient[0].begins();
        patient.iter().for_each(|one| one.end());
    }
}
