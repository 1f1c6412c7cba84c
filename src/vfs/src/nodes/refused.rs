//! Saves that are refused.
//!
//! One rule: what a handle wrote is never mixed with a text it did not begin from. Its bytes stay its own until they are accepted, or until
//! nobody who wrote them has the file open any more; a copy is kept where a person finds it from the first refusal on.

use bytes::Bytes;
use svcfs_base::{DiskAttributes, Durability, Fault, FileKind, Kind, TreePath};
use svcfs_store::Install;
use tracing::{error, warn};

use super::table::{Shared, Staging};
use super::{HandleId, NodeId};
use crate::Vfs;
use crate::place::REJECTED_DIRECTORY;

impl Staging {
    /// Notes why it was not accepted, where that is for what it is; what the disk refuses is tried again as it is.
    pub(super) fn judge(&mut self, fault: &Fault) {
        if matches!(fault.kind(), Kind::Rejected | Kind::Conflict | Kind::Locked) {
            self.verdict = Some(fault.again());
        }
        if fault.kind() == Kind::Conflict {
            self.lost = Some(fault.again());
        }
    }

    /// Why it is never accepted: others wrote the file since, and only parts of it were changed here. Whoever empties the file first writes all
    /// of it.
    pub(super) fn lost(&self) -> Option<&Fault> {
        self.lost.as_ref().filter(|_| self.base.is_some())
    }
}

impl Shared {
    /// A handle goes on with what was put aside for it.
    ///
    /// # Errors
    /// `Conflict` when others are writing the file by now.
    pub(super) fn take_back(&mut self, handle: HandleId) -> Result<(), Fault> {
        let is_its = |aside: &Staging| aside.until.is_none_or(|until| handle < until);
        if !self.aside.as_ref().is_some_and(is_its) {
            return Ok(());
        }
        if self.staging.is_some() {
            let told = "the last save of this file was refused, and others are writing it by now; open it anew";
            return Err(Fault::new(Kind::Conflict, told));
        }
        self.staging = self.aside.take();
        Ok(())
    }
}

impl Vfs {
    /// What becomes of bytes that could not be published.
    pub(super) fn after_refusal(
        &self,
        shared: &mut Shared,
        path: &TreePath,
        (staging, content): (Staging, Bytes),
        durability: Durability,
    ) {
        let Some(fault) = staging.verdict.as_ref().map(Fault::again) else {
            // The disk, or we: the bytes stay with the node, and the next flush tries again.
            shared.staging = Some(staging);
            return;
        };
        shared.refusal = Some(fault.message().to_owned());
        self.keep_refused(path, content, &fault);
        if durability == Durability::Now && staging.lost().is_none() {
            // No close, after which the file has to be what it was: whoever asked has it open, and goes on.
            let until = staging.until.unwrap_or_else(|| self.nodes.next_handle());
            shared.staging = Some(Staging { until: Some(until), ..staging });
        } else {
            self.put_aside(shared, staging);
        }
    }

    /// Leaves refused bytes to those who have the file open now.
    pub(super) fn put_aside(&self, shared: &mut Shared, staging: Staging) {
        let until = staging.until.unwrap_or_else(|| self.nodes.next_handle());
        shared.aside = Some(Staging { until: Some(until), ..staging });
    }

    /// Before a handle is closed: refused bytes go with the last of those who could go on with them. Whoever saved was told; were the bytes kept,
    /// the next one to write the file would publish them unawares.
    pub(super) fn let_go_of_refused(&self, shared: &mut Shared, closing: (NodeId, HandleId)) {
        if shared.aside.as_ref().is_some_and(|aside| !self.nodes.is_written_elsewhere(closing, aside.until)) {
            shared.aside = None;
        }
        let is_refused = shared.staging.as_ref().is_some_and(|staging| staging.verdict.is_some());
        if is_refused && !self.nodes.is_written_elsewhere(closing, None) {
            shared.staging = None;
        }
    }

    /// Keeps what was refused where a person finds it (gaps.md D6).
    pub(super) fn keep_refused(&self, path: &TreePath, content: Bytes, fault: &Fault) {
        warn!(page.path = %path, reason = fault.message(), "a save was refused; its text is kept below `{REJECTED_DIRECTORY}`");
        let Ok(place) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else {
            return;
        };
        let install =
            Install { path: &place, content: &content, kind: FileKind::Regular, disk: DiskAttributes::default() };
        if let Err(error) = self.core.tree.install(&install) {
            error!(page.path = %path, %error, "the text of a refused save could not be kept");
        }
    }

    /// An accepted save makes an earlier refusal of the same path void.
    pub(super) fn accepted_save(&self, shared: &mut Shared, path: &TreePath) {
        shared.refusal = None;
        self.forget_refused(path);
    }

    pub(super) fn forget_refused(&self, path: &TreePath) {
        let Ok(place) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else {
            return;
        };
        if self.core.tree.stat(&place).is_ok()
            && let Err(error) = self.core.tree.remove(&place)
        {
            warn!(page.path = %path, %error, "the text of an earlier refused save could not be removed");
        }
    }

    /// Why the last save of this node was refused, if it was (`user.svc.lint`, gaps.md D6).
    pub fn refusal(&self, node: NodeId) -> Option<String> {
        self.nodes.shared(node).ok()?.lock().refusal.clone()
    }
}
