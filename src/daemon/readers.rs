//! A few threads for reads that may take long, so that threads that serve mail never wait for a disk.
//!
//! ```text
//!   worker --submit--> queue (bounded) --> reader 1..n --> Job::run
//! ```
//!
//! If a disk hangs, it blocks only the readers that wait for it, at most half of all, and its jobs in the queue. A job is
//! dropped without reading when nobody needs it any more. While the maximum of readers hangs in such jobs, no new jobs for
//! this disk are accepted. A disk is identified by a number that the caller chooses: the same number for all files that may
//! hang together.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::base::lock::{lock, wait};

/// Most jobs that wait for a reader. A connection has only a few jobs at a time, so only a disk that hangs fills the queue.
const QUEUE_MAX: usize = 1024;

/// A task for a reader.
pub trait Job: Send + Sync {
    /// Reads, and tells the one who waits.
    fn run(&self);

    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
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
    queue: VecDeque<Task>,
    /// The current task of each reader.
    running: Vec<Option<Task>>,
    /// The readers must end.
    closed: bool,
}

/// A job, and the disk that it reads.
#[derive(Clone)]
struct Task {
    disk: usize,
    can_wait: bool,
    job: Arc<dyn Job>,
}

impl Shared {
    /// The loop of one reader.
    fn read(&self, reader: usize) {
        let mut state = lock(&self.state);
        loop {
            let Some(task) = state.next() else {
                if state.closed {
                    return;
                }
                state = wait(&self.work, state);
                continue;
            };
            state.note(reader, Some(task.clone()));
            drop(state);
            if catch_unwind(AssertUnwindSafe(|| task.job.run())).is_err() {
                tracing::error!("internal error: a read failed");
            }
            drop(task);
            state = lock(&self.state);
            state.note(reader, None);
            // Another job for this disk may be waiting, and this reader may take a job for another disk.
            self.work.notify_one();
        }
    }
}

impl State {
    /// The first task that is still needed, of a disk that has not reached its share of the readers; one that can wait only
    /// if there is no other.
    fn next(&mut self) -> Option<Task> {
        self.queue.retain(|task| !task.job.is_abandoned());
        let has_room =
            |task: &Task| self.readers_in(|running| running.disk == task.disk) < self.share();
        let is_first = |task: &Task| !task.can_wait && has_room(task);
        let next = (self.queue.iter().position(is_first))
            .or_else(|| self.queue.iter().position(has_room))?;
        self.queue.remove(next)
    }

    fn note(&mut self, reader: usize, task: Option<Task>) {
        if let Some(running) = self.running.get_mut(reader) {
            *running = task;
        }
    }

    /// How many readers have a current task that meets this condition.
    fn readers_in(&self, such: impl Fn(&Task) -> bool) -> usize {
        let running = self.running.iter().flatten();
        running.filter(|running| such(running)).count()
    }

    /// How many readers may read the same disk at a time.
    fn share(&self) -> usize {
        self.running.len().div_ceil(2)
    }

    /// Whether no reader is left for this disk, because all hang in jobs that are no longer needed.
    fn is_stuck(&self, disk: usize) -> bool {
        let of_disk = |task: &Task| task.job.is_abandoned() && task.disk == disk;
        self.readers_in(of_disk) >= self.share()
            || self.readers_in(|task| task.job.is_abandoned()) >= self.running.len()
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
            thread::Builder::new()
                .name(format!("reader {}", reader + 1))
                .spawn(move || shared.read(reader))?;
        }
        Ok(readers)
    }

    /// Has a job for this disk done soon, after all others if it `can_wait`; `false` if the disk hangs or the queue is full.
    /// Jobs that can wait leave half of the queue free.
    pub fn submit(&self, disk: usize, can_wait: bool, job: Arc<dyn Job>) -> bool {
        let mut state = lock(&self.shared.state);
        let most = if can_wait { QUEUE_MAX / 2 } else { QUEUE_MAX };
        if state.queue.len() >= most {
            state.queue.retain(|task| !task.job.is_abandoned());
        }
        let fits = state.queue.len() < most && !state.is_stuck(disk);
        if fits {
            state.queue.push_back(Task {
                disk,
                can_wait,
                job,
            });
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
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Ends as soon as the test says so.
    struct Hanging {
        begun: Sender<()>,
        go: Mutex<Receiver<()>>,
        abandoned: AtomicBool,
    }

    impl Job for Hanging {
        fn run(&self) {
            self.begun.send(()).expect("the test listens");
            // Also at the end of the test.
            let _ = self.go.lock().expect("not poisoned").recv();
        }

        fn is_abandoned(&self) -> bool {
            self.abandoned.load(Relaxed)
        }
    }

    /// A job, what hears that it has begun, and what ends it.
    fn job() -> (Arc<Hanging>, Receiver<()>, Sender<()>) {
        let (begun, has_begun) = channel();
        let (go, may_go) = channel();
        let job = Hanging {
            begun,
            go: Mutex::new(may_go),
            abandoned: AtomicBool::new(false),
        };
        (Arc::new(job), has_begun, go)
    }

    #[test]
    fn a_disk_that_hangs_costs_its_own_readers_and_no_more() {
        let readers = Readers::start(4).expect("threads");
        let hang = |disk| {
            let (job, begun, go) = job();
            assert!(readers.submit(disk, false, Arc::clone(&job) as Arc<dyn Job>));
            (job, begun, go)
        };
        let (first, second) = (hang(1), hang(1));
        for (_, begun, _) in [&first, &second] {
            begun.recv().expect("a reader is at it");
        }
        // These two are the disk's share of readers, and none is cancelled: the queue accepts more jobs.
        let third = hang(1);
        // The other readers serve other disks.
        let other = hang(2);
        other.1.recv().expect("a reader is at it");
        assert!(third.1.try_recv().is_err());
        assert_eq!(lock(&readers.shared.state).queue.len(), 1);
        // Now all readers of its share hang: no job is accepted, except for other disks.
        for (job, _, _) in [&first, &second, &third] {
            job.abandoned.store(true, Relaxed);
        }
        assert!(!readers.submit(1, false, job().0));
        let another = hang(3);
        another.1.recv().expect("a reader is at it");
        // These hang, too: no reader is left.
        for (job, _, _) in [&other, &another] {
            job.abandoned.store(true, Relaxed);
        }
        assert!(!readers.submit(4, false, job().0));
        // The disks answer again.
        drop((first.2, second.2, other.2, another.2));
        for disk in [1, 2, 3] {
            let (job, begun, _go) = job();
            while !readers.submit(disk, false, Arc::clone(&job) as Arc<dyn Job>) {
                thread::yield_now();
            }
            begun.recv().expect("a reader is at it");
        }
    }

    /// Cancelled jobs free space in the queue.
    #[test]
    fn the_queue_is_bounded() {
        let readers = Readers::start(1).expect("threads");
        let (first, begun, _go) = job();
        assert!(readers.submit(1, false, first));
        begun.recv().expect("the reader is at it");
        let jobs: Vec<_> = (0..QUEUE_MAX).map(|_| job().0).collect();
        for job in &jobs {
            assert!(readers.submit(1, false, Arc::clone(job) as Arc<dyn Job>));
        }
        assert!(!readers.submit(1, false, job().0), "there is no room");
        for job in &jobs[10..] {
            job.abandoned.store(true, Relaxed);
        }
        assert!(readers.submit(1, false, job().0));
        assert_eq!(lock(&readers.shared.state).queue.len(), 11);
    }

    /// A flood of messages with thousands of senders each.
    #[test]
    fn what_can_wait_comes_last_and_leaves_room() {
        let readers = Readers::start(1).expect("threads");
        let (first, begun, go) = job();
        assert!(readers.submit(1, false, first));
        begun.recv().expect("the reader is at it");
        let (patient, patient_begun, patient_go) = job();
        assert!(readers.submit(1, true, patient));
        let mut more = Vec::new();
        while more.len() < QUEUE_MAX {
            let (job, ..) = job();
            if !readers.submit(1, true, Arc::clone(&job) as Arc<dyn Job>) {
                break;
            }
            more.push(job);
        }
        assert!(more.len() < QUEUE_MAX / 2);
        let (other, other_begun, other_go) = job();
        assert!(readers.submit(1, false, other), "there is room");
        drop(go);
        other_begun.recv().expect("it comes first");
        assert!(patient_begun.try_recv().is_err());
        drop(other_go);
        patient_begun.recv().expect("now it is its turn");
        for job in more {
            job.abandoned.store(true, Relaxed);
        }
        drop(patient_go);
    }
}
