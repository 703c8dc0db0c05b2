//! A power cut during or after a compilation leaves the old filter or the new one, complete; and
//! certainly the new one if the compiler has reported success.
//!
//! The file system is an image on a loop device. A copy of the image has what had been written to
//! the "disk" at that moment, without anything that was only in the kernel's memory: the state that
//! a machine finds after a power cut. ext4 is mounted with `noauto_da_alloc`; otherwise it would
//! write a renamed file to disk by itself. XFS never does.

use crate::support::compile as support;
use crate::support::{installed, usable};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use blocklist_filter::filter::{Filter, Load};
use support::{addresses, command, names};
use tempfile::TempDir;

/// A file system on an image, mounted until it is dropped.
struct Image {
    folder: TempDir,
    /// The options for mount(8).
    options: &'static str,
}

impl Image {
    /// Returns `None` if it cannot be created here.
    fn new(kind: &str, options: &'static str) -> Option<Self> {
        let make = format!("mkfs.{kind}");
        if !installed(&make) {
            return None;
        }
        let image = Self {
            folder: tempfile::tempdir().expect("a folder"),
            options,
        };
        let file = fs::File::create(image.file("image")).expect("our own folder");
        // The minimum for mkfs.xfs.
        file.set_len(300 << 20).expect("a sparse file");
        let force = if kind == "xfs" { "-f" } else { "-F" };
        let mut make = Command::new(make);
        let made = make.args(["-q", force]).arg(image.file("image"));
        let is_made = made
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success());
        let mounted = is_made && image.mount("image", "mounted");
        let obstacle = (!mounted).then(|| "no image can be mounted here".to_owned());
        usable("mount", obstacle).then_some(image)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mount(&self, image: &str, at: &str) -> bool {
        let at = self.file(at);
        // It may exist from the last time.
        let _ = fs::create_dir(&at);
        let mut mount = Command::new("mount");
        mount
            .args(["-o", self.options])
            .arg(self.file(image))
            .arg(at);
        mount
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
    }

    fn unmount(&self, at: &str) {
        let _ = Command::new("umount").arg(self.file(at)).status();
    }

    /// Returns the state that a machine finds after a power cut at this moment.
    fn cut(&self) -> Cut<'_> {
        let copied = Command::new("cp")
            .args(["--sparse=always"])
            .args([self.file("image"), self.file("copy")])
            .status();
        assert!(copied.is_ok_and(|done| done.success()));
        assert!(self.mount("copy", "found"), "a power cut must not break it");
        Cut(self)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.unmount("mounted");
    }
}

/// The mounted copy.
struct Cut<'i>(&'i Image);

impl Cut<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.file("found").join(name)
    }

    /// Returns the number of entries in the filter, after checking every byte of it.
    fn entries(&self) -> u64 {
        let filter = Filter::open(&self.path("list.blf"), Load::Disk).expect("a whole filter");
        Filter::verify(&self.path("list.blf")).expect("a whole filter");
        filter.entries()
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.0.unmount("found");
    }
}

const FEW: u64 = 1_000;
const MANY: u64 = 20_000;

fn compile(folder: &Path, list: &str) -> Command {
    let output = folder.join("list.blf");
    let list = folder.join(list);
    let [output, list] = [output, list].map(|path| path.to_string_lossy().into_owned());
    let mut compile = command(&["build", "-q", "-o"]);
    compile.args([output, list]);
    compile
}

fn cut_at_many_moments(kind: &str, options: &'static str, rounds: u64) {
    let Some(image) = Image::new(kind, options) else {
        return;
    };
    let folder = image.file("mounted");
    for (name, count) in [("few.txt", FEW), ("many.txt", MANY)] {
        let count = u32::try_from(count).expect("a small number");
        fs::write(folder.join(name), addresses(0..count)).expect("mounted");
    }
    let synced = Command::new("sync").arg("-f").arg(&folder).status();
    assert!(synced.expect("it starts").success());
    let done = compile(&folder, "few.txt").status().expect("it starts");
    assert!(done.success());
    let (mut old, mut new) = ((FEW, "few.txt"), (MANY, "many.txt"));
    let (mut kept, mut replaced) = (0, 0);
    for round in 0..rounds {
        // Immediately after it reported success. Without `fsync` of the folder this is the old
        // filter; without that of the file, it is empty.
        assert_eq!(image.cut().entries(), old.0, "round {round}, at the end");
        let mut running = compile(&folder, new.1).spawn().expect("it starts");
        sleep(Duration::from_millis(7 * round % 160));
        {
            let cut = image.cut();
            let found = cut.entries();
            assert!(found == old.0 || found == new.0, "round {round}: {found}");
            *if found == old.0 {
                &mut kept
            } else {
                &mut replaced
            } += 1;
            // After the next compilation, nothing else is left.
            let next = compile(&cut.0.file("found"), new.1).status();
            assert!(next.expect("it starts").success());
            assert_eq!(cut.entries(), new.0);
            let left: Vec<_> = names(&cut.0.file("found"));
            let expected = ["few.txt", "list.blf", "many.txt"];
            assert_eq!(
                left.iter()
                    .filter(|name| *name != "lost+found")
                    .collect::<Vec<_>>(),
                expected
            );
        }
        assert!(running.wait().expect("our own child").success());
        (old, new) = (new, old);
    }
    println!("{kind}: {rounds} cuts at the end, {kept} before and {replaced} after the rename");
}

const EXT4: &str = "loop,noauto_da_alloc,commit=1";
const XFS: &str = "loop,nouuid";

#[test]
fn after_a_power_cut_the_filter_is_whole() {
    cut_at_many_moments("ext4", EXT4, 3);
    cut_at_many_moments("xfs", XFS, 3);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn after_many_power_cuts_the_filter_is_whole() {
    cut_at_many_moments("ext4", EXT4, 130);
    cut_at_many_moments("xfs", XFS, 130);
}
