//! Landlock: rulesets through the `landlock` crate; by hand the ABI number, which it does not tell.

#[cfg(target_os = "linux")]
pub use linux::Ruleset;
#[cfg(not(target_os = "linux"))]
pub use none::Ruleset;

/// What a ruleset takes away unless a rule gives it back. WRITE_FILE and REFER always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// TRUNCATE (ABI 3).
    pub truncate: bool,
    /// Making and removing entries of every kind.
    pub entries: bool,
    /// Signals to, and abstract sockets of, processes outside the domain (ABI 6).
    pub scopes: bool,
}

/// The Landlock ABI of the running kernel, found by asking for it; 0 where there is none or it may not be used.
///
/// Lists under /sys are not consulted: securityfs is often not mounted.
#[cfg(target_os = "linux")]
pub fn abi() -> i32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute pointer must be null and the size 0; no memory is touched and no
    // descriptor is made (landlock_create_ruleset(2)).
    let version = unsafe {
        syscall!(
            SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// There is no Landlock here.
#[cfg(not(target_os = "linux"))]
pub fn abi() -> i32 {
    0
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;

    use landlock::{
        AccessFs, AccessNet, AddRuleError, AddRulesError, BitFlags, CompatLevel, Compatible,
        PathBeneath, RestrictSelfError, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
        RulesetError, Scope,
    };

    use super::Handled;

    /// A ruleset under construction; a close-on-exec descriptor.
    #[derive(Debug)]
    pub struct Ruleset {
        created: RulesetCreated,
        /// What can be granted on a file.
        write: BitFlags<AccessFs>,
        /// What can be granted on a directory beside that and REFER.
        entries: BitFlags<AccessFs>,
    }

    /// Every MAKE_ and REMOVE_ right of ABI 1.
    fn entries() -> BitFlags<AccessFs> {
        AccessFs::RemoveDir
            | AccessFs::RemoveFile
            | AccessFs::MakeChar
            | AccessFs::MakeDir
            | AccessFs::MakeReg
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::MakeBlock
            | AccessFs::MakeSym
    }

    impl Ruleset {
        /// Everything in `handled` or nothing: the crate's best effort is switched off, the caller knows the ABI.
        pub fn new(handled: Handled) -> io::Result<Self> {
            let mut write = BitFlags::from(AccessFs::WriteFile);
            if handled.truncate {
                write |= AccessFs::Truncate;
            }
            let entries = if handled.entries {
                entries()
            } else {
                BitFlags::empty()
            };
            let mut ruleset = landlock::Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(write | entries | AccessFs::Refer)
                .map_err(io::Error::other)?;
            if handled.scopes {
                ruleset = ruleset
                    .scope(Scope::Signal | Scope::AbstractUnixSocket)
                    .map_err(io::Error::other)?;
            }
            let created = ruleset.create().map_err(io::Error::other)?;
            Ok(Self {
                created,
                write,
                entries,
            })
        }

        /// A ruleset that takes execution, and nothing else but REFER.
        pub fn for_programs() -> io::Result<Self> {
            Self::taking(AccessFs::Execute)
        }

        /// A ruleset that takes connecting and binding by TCP (ABI 4) and gives none of it back.
        pub fn without_tcp() -> io::Result<Self> {
            let created = landlock::Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::ConnectTcp | AccessNet::BindTcp)
                .and_then(landlock::Ruleset::create)
                .map_err(io::Error::other)?;
            Ok(Self {
                created,
                write: BitFlags::empty(),
                entries: BitFlags::empty(),
            })
        }

        /// A ruleset that takes opening for reading, and nothing else but REFER.
        pub fn for_reading() -> io::Result<Self> {
            Self::taking(AccessFs::ReadFile)
        }

        /// A ruleset that takes opening for reading and execution, with `lists` the listing of directories too, and nothing else but REFER.
        pub fn for_view(lists: bool) -> io::Result<Self> {
            let files = AccessFs::ReadFile | AccessFs::Execute;
            if !lists {
                return Self::taking(files);
            }
            let mut ruleset = Self::taking(files | AccessFs::ReadDir)?;
            ruleset.entries = AccessFs::ReadDir.into();
            Ok(ruleset)
        }

        /// In such a ruleset: this object may be read and executed, with everything below it.
        pub fn allow_view(&mut self, object: OwnedFd, is_dir: bool) -> io::Result<()> {
            let mut access = AccessFs::ReadFile | AccessFs::Execute;
            if is_dir {
                access |= self.entries;
            }
            self.allow(object, access)
        }

        fn taking(access: impl Into<BitFlags<AccessFs>>) -> io::Result<Self> {
            let access = access.into();
            let created = landlock::Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(access | AccessFs::Refer)
                .and_then(landlock::Ruleset::create)
                .map_err(io::Error::other)?;
            Ok(Self {
                created,
                write: BitFlags::empty(),
                entries: BitFlags::empty(),
            })
        }

        /// Programs at or below this object may be executed.
        pub fn allow_programs(&mut self, object: OwnedFd) -> io::Result<()> {
            self.allow(object, AccessFs::Execute.into())
        }

        /// Files at or below this object may be opened for reading, in a ruleset that takes that.
        pub fn allow_read(&mut self, object: OwnedFd) -> io::Result<()> {
            self.allow(object, AccessFs::ReadFile.into())
        }

        /// Files at or below this object may be opened for writing and truncated.
        pub fn allow_write(&mut self, object: OwnedFd) -> io::Result<()> {
            let access = self.write;
            self.allow(object, access)
        }

        /// Files below this directory may be moved and linked to other directories.
        pub fn allow_refer(&mut self, directory: OwnedFd) -> io::Result<()> {
            self.allow(directory, AccessFs::Refer.into())
        }

        /// Everything that is handled, at and below this directory.
        pub fn allow_all(&mut self, directory: OwnedFd) -> io::Result<()> {
            let access = self.write | self.entries | AccessFs::Refer;
            self.allow(directory, access)
        }

        /// Sockets may be bound and made below this directory.
        pub fn allow_sockets(&mut self, directory: OwnedFd) -> io::Result<()> {
            self.allow(directory, self.entries & AccessFs::MakeSock)
        }

        fn allow(&mut self, object: OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
            match (&mut self.created).add_rule(PathBeneath::new(object, access)) {
                Ok(_) => Ok(()),
                Err(RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall {
                    source,
                    ..
                }))) => Err(source),
                Err(error) => Err(io::Error::other(error)),
            }
        }

        /// Restricts the calling thread and everything it starts, with no_new_privs. Allocates nothing on success.
        pub fn restrict_self(&self) -> io::Result<()> {
            match self.created.try_clone()?.restrict_self() {
                Ok(_) => Ok(()),
                Err(RulesetError::RestrictSelf(
                    RestrictSelfError::SetNoNewPrivsCall { source, .. }
                    | RestrictSelfError::RestrictSelfCall { source, .. },
                )) => Err(source),
                Err(error) => Err(io::Error::other(error)),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::io;
    use std::os::fd::OwnedFd;

    use super::Handled;

    /// There are no rulesets here: `new` always fails.
    #[derive(Debug)]
    pub struct Ruleset(std::convert::Infallible);

    impl Ruleset {
        /// Unsupported.
        pub fn new(_handled: Handled) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
        /// Unsupported.
        pub fn for_programs() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
        /// Never called.
        pub fn allow_programs(&mut self, _object: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Unsupported.
        pub fn without_tcp() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
        /// Unsupported.
        pub fn for_reading() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
        /// Unsupported.
        pub fn for_view(_lists: bool) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
        /// Never called.
        pub fn allow_view(&mut self, _object: OwnedFd, _is_dir: bool) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn allow_read(&mut self, _object: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn allow_write(&mut self, _object: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn allow_refer(&mut self, _directory: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn allow_all(&mut self, _directory: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn allow_sockets(&mut self, _directory: OwnedFd) -> io::Result<()> {
            match self.0 {}
        }
        /// Never called.
        pub fn restrict_self(&self) -> io::Result<()> {
            match self.0 {}
        }
    }
}
