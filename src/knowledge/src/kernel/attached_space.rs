//! The space of a gate: gates are made before the space that they read.

use std::sync::{Arc, OnceLock, Weak};

use super::Space;

/// A space that is set once, when it is open; shared by the copies of a gate.
#[derive(Clone, Default)]
pub(crate) struct AttachedSpace(Arc<OnceLock<Weak<Space>>>);

impl AttachedSpace {
    /// Sets the space; later ones are ignored.
    pub fn attach(&self, space: &Arc<Space>) {
        let _only_the_first = self.0.set(Arc::downgrade(space));
    }

    /// The space; none while it is being opened, and after it is closed.
    pub fn get(&self) -> Option<Arc<Space>> {
        self.0.get().and_then(Weak::upgrade)
    }
}
