//! What can be asked of one name, in the terms of the system calls.

/// The kind of an object, not following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing has this name.
    Absent,
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device node.
    Other,
}

/// One thing asked of one name. A call that concerns two names asks two: rename, link, exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Open for writing, create, truncate. Links were followed: the name is the one that is opened.
    Write,
    /// Make a directory.
    Mkdir,
    /// Make a FIFO, a device node, or a file by mknod(2).
    Mknod,
    /// Bind a socket.
    Bind,
    /// Make a symbolic link.
    Symlink,
    /// Give an existing object this name as well (link(2), linkat(2) of an unnamed file).
    LinkTo(Kind),
    /// Give this object another name as well.
    LinkFrom,
    /// Move an object of this kind to this name, replacing what has it.
    RenameTo(Kind),
    /// Move this object away.
    RenameFrom,
    /// Remove what is not a directory.
    Unlink,
    /// Remove an empty directory.
    Rmdir,
    /// Change the mode; of both only the lowest twelve bits count.
    Chmod {
        /// What it is.
        from: u32,
        /// What it shall be.
        to: u32,
    },
}

impl Action {
    /// The kind that has the name afterwards, where the action puts something there. `existing` is what has it before.
    #[must_use]
    pub fn puts(self, existing: Kind) -> Option<Kind> {
        match self {
            Self::Write if existing == Kind::Absent => Some(Kind::File),
            Self::Mkdir => Some(Kind::Dir),
            Self::Mknod | Self::Bind => Some(Kind::Other),
            Self::Symlink => Some(Kind::Symlink),
            Self::LinkTo(kind) | Self::RenameTo(kind) => Some(kind),
            Self::Write
            | Self::LinkFrom
            | Self::RenameFrom
            | Self::Unlink
            | Self::Rmdir
            | Self::Chmod { .. } => None,
        }
    }
}
