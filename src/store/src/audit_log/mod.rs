//! The audit trail on the disk: lines of text, one file a day (`.svc/audit/YYYY-MM-DD.jsonl`, gaps.md 4.17).
//!
//! One rule: what stands there is never changed, only added to and, when it is old or too much, removed file by file. A line is there whole or
//! not at all: what a full disk or a crash tore is cut off, or ended, before the next one.
//!
//! Nothing is flushed: a crash of the server loses nothing that was written, a power cut the last seconds.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use parking_lot::Mutex;

use crate::{AUDIT_DIRECTORY, StoreError, history};

#[cfg(test)]
mod tests;

/// A file is begun anew within a day when it is this long, in bytes, or an eighth of all that is kept.
const LONGEST_PART: u64 = 64 << 20;
/// Longest line that is read, in bytes; what is longer was not written by us.
const LONGEST_LINE: u64 = 64 << 10;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Days before the present one.
    pub days: u32,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// The trail of one root. Nothing is made before the first line.
#[derive(Debug)]
pub struct AuditLog {
    root: PathBuf,
    directory: PathBuf,
    keep: RetentionLimits,
    open: Mutex<Option<OpenPart>>,
}

/// The file that is being written.
#[derive(Debug)]
struct OpenPart {
    day: Date,
    file: File,
    length: u64,
}

/// Where a file stands among the others: its day, and which part of it; the last part has no number.
type PartOrder = (Date, u32);

impl AuditLog {
    /// The trail of a root.
    pub fn new(root: &Path, keep: RetentionLimits) -> Self {
        Self { root: root.to_owned(), directory: root.join(AUDIT_DIRECTORY), keep, open: Mutex::new(None) }
    }

    /// Adds lines, each with its `\n`, to the file of a day; all of them or none.
    ///
    /// # Errors
    /// `State` with what the disk said.
    pub fn append(&self, day: Date, lines: &str) -> Result<(), StoreError> {
        let mut open = self.open.lock();
        if let Some(full) = open.take_if(|open| open.day != day || open.length >= self.longest_part())
            && full.day == day
        {
            self.end_part(day)?;
        }
        if open.is_none() {
            *open = Some(self.open(day)?);
            self.tidy(day)?;
        }
        let Some(OpenPart { file, length, .. }) = open.as_mut() else { return Ok(()) };
        match file.write_all(lines.as_bytes()) {
            Ok(()) => {
                *length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Where that fails too, whoever opens the file next ends the torn line.
                let _ = file.set_len(*length);
                *open = None;
                Err(error.into())
            }
        }
    }

    /// Hands every line from a day on to `each`, in the order they were written.
    ///
    /// # Errors
    /// `State` with what the disk said; a file that is removed meanwhile is passed over.
    pub fn read(&self, from: Date, mut each: impl FnMut(&str)) -> Result<(), StoreError> {
        for ((day, _), path) in self.files()? {
            if day < from {
                continue;
            }
            let mut reader = match File::open(&path) {
                Ok(file) => BufReader::with_capacity(1 << 16, file),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let mut line = Vec::new();
            while reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
                if let Ok(text) = std::str::from_utf8(line.trim_ascii_end()) {
                    each(text);
                }
                line.clear();
            }
        }
        Ok(())
    }

    fn longest_part(&self) -> u64 {
        LONGEST_PART.min(self.keep.bytes / 8)
    }

    fn open(&self, day: Date) -> io::Result<OpenPart> {
        fs::create_dir_all(&self.directory)?;
        history::give_below(&self.root, AUDIT_DIRECTORY)?;
        let path = self.directory.join(format!("{day}.jsonl"));
        // It tells who did what: it is nobody's business but the server's.
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        history::give_as_its_directory(&path)?;
        let mut length = file.metadata()?.size();
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok(OpenPart { day, file, length })
    }

    /// Gives the file of a day a number, so that the next part can begin.
    fn end_part(&self, day: Date) -> Result<(), StoreError> {
        let numbers = self.files()?.into_keys().filter(|(of, part)| *of == day && *part != u32::MAX);
        let next = numbers.map(|(_, part)| part).max().unwrap_or(0) + 1;
        let of = |name: String| self.directory.join(name);
        fs::rename(of(format!("{day}.jsonl")), of(format!("{day}.{next}.jsonl")))?;
        Ok(())
    }

    /// Removes what is older than may be kept, and the oldest of what is too much; never the file that is being written.
    fn tidy(&self, today: Date) -> Result<(), StoreError> {
        let files = self.files()?;
        let oldest = today.checked_sub(jiff::Span::new().days(i64::from(self.keep.days))).unwrap_or(Date::MIN);
        let length = |path: &Path| fs::metadata(path).map_or(0, |stat| stat.size());
        let mut all: u64 = files.values().map(|path| length(path)).sum();
        for (order, path) in files {
            let is_too_much = all > self.keep.bytes - self.longest_part();
            if order == (today, u32::MAX) || (order.0 >= oldest && !is_too_much) {
                continue;
            }
            all = all.saturating_sub(length(&path));
            fs::remove_file(&path)?;
            tracing::info!(file = %path.display(), "a file of the audit log is older or more than is kept, and was removed");
        }
        Ok(())
    }

    /// The files of the trail, oldest first; what is no such file is left alone.
    fn files(&self) -> Result<BTreeMap<PartOrder, PathBuf>, StoreError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            if let Some(order) = entry.file_name().to_str().and_then(order) {
                files.insert(order, entry.path());
            }
        }
        Ok(files)
    }
}

/// What the name of a file says.
fn order(name: &str) -> Option<PartOrder> {
    let stem = name.strip_suffix(".jsonl")?;
    let (day, part) = match stem.split_once('.') {
        Some((day, part)) => (day, part.parse().ok().filter(|part| *part != u32::MAX)?),
        None => (stem, u32::MAX),
    };
    Some((day.parse().ok()?, part))
}
