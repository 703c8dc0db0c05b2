//! A few threads for reads that may take long, so that threads that serve mail never wait for a disk.
//!
//! ```text
//!   worker --submit--> queue (bounded) --> reader 1..n     one item after the other
//!     ^                                        |
//!     +---- Waiting: woken when all is read ---+
//!           or when the deadline has passed, with the answers until then
//! ```
//!
//! If a disk hangs, it blocks only the readers that wait for it, at most half of all, and its jobs in the queue. A job is
//! dropped without reading when its [`Waiting`] is dropped. While the maximum of readers hangs in such jobs, no new jobs for
//! this disk are accepted. A disk is identified by a number that the caller chooses: the same number for all files that may
//! hang together.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

/// Most jobs that wait for a reader. A connection has only one job at a time, so only a disk that hangs fills the queue.
const QUEUE_MAX: usize = 1024;

/// The deadline for answers.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// This long from now, at most a year.
    #[must_use]
    pub fn after(patience: Duration) -> Self {
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        Self(Instant::now() + patience.min(YEAR))
    }
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
    queue: VecDeque<Job>,
    /// The current job of each reader.
    running: Vec<Option<Running>>,
    /// The readers must end.
    closed: bool,
}

/// A task for a reader.
struct Job {
    what: Running,
    run: Box<dyn FnOnce() + Send>,
}

/// The current job of a reader.
struct Running {
    /// The disk that it reads.
    disk: usize,
    /// Its answers are no longer needed.
    abandoned: Arc<AtomicBool>,
}

impl Running {
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of one reader.
    fn read(&self, reader: usize) {
        let mut state = self.lock();
        loop {
            let Some(job) = state.next() else {
                if state.closed {
                    return;
                }
                let woken = self.work.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.note(reader, Some(job.what));
            drop(state);
            if catch_unwind(AssertUnwindSafe(job.run)).is_err() {
                tracing::error!("internal error: a read failed");
            }
            state = self.lock();
            state.note(reader, None);
            // Another job for this disk may be waiting, and this reader may take a job for another disk.
            self.work.notify_one();
        }
    }
}

impl State {
    /// The first job that is still needed, of a disk that has not reached its share of the readers.
    fn next(&mut self) -> Option<Job> {
        self.queue.retain(|job| !job.what.is_abandoned());
        let has_room =
            |job: &Job| self.readers_in(|running| running.disk == job.what.disk) < self.share();
        let next = self.queue.iter().position(has_room)?;
        self.queue.remove(next)
    }

    fn note(&mut self, reader: usize, job: Option<Running>) {
        if let Some(running) = self.running.get_mut(reader) {
            *running = job;
        }
    }

    /// How many readers have a current job that meets this condition.
    fn readers_in(&self, such: impl Fn(&Running) -> bool) -> usize {
        let running = self.running.iter().flatten();
        running.filter(|running| such(running)).count()
    }

    /// How many readers may read the same disk at a time.
    fn share(&self) -> usize {
        self.running.len().div_ceil(2)
    }

    /// Whether no reader is left for this disk, because all hang in jobs that are no longer needed.
    fn is_stuck(&self, disk: usize) -> bool {
        let of_disk = |job: &Running| job.is_abandoned() && job.disk == disk;
        self.readers_in(of_disk) >= self.share()
            || self.readers_in(Running::is_abandoned) >= self.running.len()
    }

    /// Adds a job to the queue, unless the disk hangs or the queue is full.
    fn submit(&mut self, job: Job) -> bool {
        if self.queue.len() >= QUEUE_MAX {
            self.queue.retain(|job| !job.what.is_abandoned());
        }
        let fits = self.queue.len() < QUEUE_MAX && !self.is_stuck(job.what.disk);
        if fits {
            self.queue.push_back(job);
        }
        fits
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
        shared.lock().running.resize_with(threads, || None);
        for reader in 0..threads {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(format!("reader {}", reader + 1))
                .spawn(move || shared.read(reader))?;
        }
        Ok(readers)
    }

    /// Calls `read` for each item on this disk, in order. The result has the answers when all are complete or the deadline
    /// has passed. Must be called, and polled, on a thread of the daemon.
    pub fn submit<I, A>(
        &self,
        disk: usize,
        items: Arc<[I]>,
        read: fn(&I) -> A,
        deadline: Deadline,
    ) -> Waiting<A>
    where
        I: Send + Sync + 'static,
        A: Send + 'static,
    {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let abandoned = Arc::new(AtomicBool::new(false));
        let (done, all_read) = oneshot::channel::<()>();
        let run = {
            let (answers, abandoned) = (Arc::clone(&answers), Arc::clone(&abandoned));
            move || {
                for item in items.iter() {
                    let answer = read(item);
                    if abandoned.load(Relaxed) {
                        return;
                    }
                    lock(&answers).push(answer);
                }
                // The waiting connection may be gone.
                let _ = done.send(());
            }
        };
        let job = Job {
            what: Running {
                disk,
                abandoned: Arc::clone(&abandoned),
            },
            run: Box::new(run),
        };
        // If the job is not accepted, `done` is dropped, and there is nothing to wait for.
        if self.shared.lock().submit(job) {
            self.shared.work.notify_one();
        }
        Waiting {
            answers,
            abandoned,
            all_read,
            is_over: false,
            deadline: Box::pin(sleep_until(deadline.0)),
        }
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Drop for Readers {
    /// The threads end by themselves; this does not wait for one that hangs.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queue.clear();
        self.shared.work.notify_all();
    }
}

/// Answers that are being read. Dropping it cancels the job.
#[derive(Debug)]
pub struct Waiting<A> {
    answers: Arc<Mutex<Vec<A>>>,
    abandoned: Arc<AtomicBool>,
    all_read: oneshot::Receiver<()>,
    /// All is read, or nothing will be read: there is nothing to cancel.
    is_over: bool,
    deadline: Pin<Box<Sleep>>,
}

impl<A> Waiting<A> {
    /// The answers, as soon as all are complete or the deadline has passed: those for the first items, in their order.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Vec<A>> {
        // Also ready if the job was dropped without reading.
        let all_read = Pin::new(&mut self.all_read).poll(cx).is_ready();
        self.is_over |= all_read;
        if all_read || self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(std::mem::take(&mut *lock(&self.answers)));
        }
        Poll::Pending
    }
}

impl<A> Drop for Waiting<A> {
    fn drop(&mut self) {
        // A reader that is about to finish does not hang.
        if !self.is_over {
            self.abandoned.store(true, Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Waker;
    use tokio::task::unconstrained;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn soon() -> Deadline {
        Deadline::after(PATIENCE)
    }

    /// Answers as soon as the test sends something.
    struct Disk {
        begun: mpsc::Sender<()>,
        go: Mutex<mpsc::Receiver<u32>>,
    }

    impl Disk {
        fn new() -> (Arc<[Self]>, mpsc::Receiver<()>, mpsc::Sender<u32>) {
            let (begun, has_begun) = mpsc::channel();
            let (send, go) = mpsc::channel();
            let go = Mutex::new(go);
            (Arc::new([Self { begun, go }]), has_begun, send)
        }

        fn read(&self) -> u32 {
            self.begun.send(()).expect("the test listens");
            lock(&self.go).recv().unwrap_or(0)
        }
    }

    /// The answers of readers that are running; the test's clock does not advance.
    fn read<A>(mut waiting: Waiting<A>) -> Vec<A> {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut answers = pin!(unconstrained(poll_fn(|cx| waiting.poll(cx))));
        loop {
            if let Poll::Ready(answers) = answers.as_mut().poll(cx) {
                return answers;
            }
            thread::yield_now();
        }
    }

    /// The answers, or those that are complete when the deadline passes.
    async fn answers<A>(mut waiting: Waiting<A>) -> Vec<A> {
        poll_fn(|cx| waiting.poll(cx)).await
    }

    #[tokio::test]
    async fn answers_come_in_order() {
        let readers = Readers::start(2).expect("threads");
        let items: Arc<[u32]> = (0..100).collect();
        let waiting = readers.submit(2, Arc::clone(&items), |item| item * 2, soon());
        let expected: Vec<u32> = items.iter().map(|item| item * 2).collect();
        assert_eq!(read(waiting), expected);
    }

    /// A caller that has the answers may ask for more before the reader has left its job.
    #[tokio::test]
    async fn a_reader_that_has_just_finished_is_not_stuck() {
        let readers = Readers::start(1).expect("a thread");
        let items: Arc<[u32]> = Arc::new([1]);
        for _ in 0..2_000 {
            let waiting = readers.submit(1, Arc::clone(&items), |item| *item, soon());
            assert_eq!(read(waiting), [1]);
        }
    }

    /// The clock is paused: it advances at once when there is nothing else to do, for example to a deadline.
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_costs_its_own_readers_and_no_more() {
        let readers = Readers::start(4).expect("threads");
        let (disk, begun, go) = Disk::new();
        let hang = |number| readers.submit(number, Arc::clone(&disk), Disk::read, soon());
        let items: Arc<[u32]> = Arc::new([1, 2]);
        let submit = |number| readers.submit(number, Arc::clone(&items), |item| *item, soon());
        let (first, second) = (hang(1), hang(1));
        begun.recv().expect("a reader is at it");
        begun.recv().expect("another reader is at it");
        // These two are the disk's share of readers, and none is cancelled: the queue accepts more jobs.
        let third = submit(1);
        // The other readers serve other disks.
        assert_eq!(read(submit(2)), [1, 2]);
        assert_eq!(readers.shared.lock().queue.len(), 1);
        let started = tokio::time::Instant::now();
        for hanging in [first, second, third] {
            assert!(answers(hanging).await.is_empty());
        }
        assert_eq!(started.elapsed().as_secs(), PATIENCE.as_secs());
        // Now all readers of its share hang: no job is queued, and the call returns at once.
        assert!(answers(submit(1)).await.is_empty());
        assert_eq!(started.elapsed().as_secs(), PATIENCE.as_secs());
        assert_eq!(read(submit(2)), [1, 2]);

        // Another disk hangs, too: no reader is left.
        let (third, fourth) = (hang(2), hang(2));
        begun.recv().expect("a reader is at it");
        begun.recv().expect("another reader is at it");
        drop((third, fourth));
        assert!(answers(submit(3)).await.is_empty());
        assert_eq!(started.elapsed().as_secs(), PATIENCE.as_secs());

        // The disks answer again.
        for _ in 0..4 {
            go.send(1).expect("a reader waits");
        }
        for number in [1, 2, 3] {
            while read(submit(number)) != [1, 2] {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_before_the_deadline_counts() {
        let readers = Readers::start(1).expect("threads");
        let (disks, _begun, go) = Disk::new();
        let (hanging, begun, _go) = Disk::new();
        let items: Arc<[(bool, Arc<[Disk]>)]> = Arc::new([(true, disks), (false, hanging)]);
        let waiting = readers.submit(1, items, |(_, disk)| disk[0].read(), soon());
        go.send(7).expect("the reader waits");
        begun.recv().expect("the reader has come to the second");
        assert_eq!(answers(waiting).await, [7]);
    }

    /// Cancelled jobs free space in the queue.
    #[tokio::test]
    async fn the_queue_is_bounded() {
        let readers = Readers::start(1).expect("threads");
        let (disk, begun, _go) = Disk::new();
        let _first = readers.submit(1, Arc::clone(&disk), Disk::read, soon());
        begun.recv().expect("the reader is at it");
        let submit = || readers.submit(1, Arc::new([1]), |item: &u32| *item, soon());
        let mut waiting: Vec<_> = (0..QUEUE_MAX).map(|_| submit()).collect();
        assert_eq!(readers.shared.lock().queue.len(), QUEUE_MAX);
        let refused = answers(submit()).await;
        assert!(refused.is_empty(), "there is no room, and no waiting");
        waiting.truncate(10);
        let _more = submit();
        assert_eq!(readers.shared.lock().queue.len(), 11);
    }
}
