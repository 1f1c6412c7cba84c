//! Conversion between tree attributes and NFS attributes.

use std::time::{SystemTime, UNIX_EPOCH};

use nfs3_types::nfs3::{
    Nfs3Option, fattr3, ftype3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, specdata3, wcc_attr,
};
use svcfs_vfs::{EntryKind, PathAttributes, SetAttributes, SpecialKind};

use crate::error::NfsError;

/// The permission bits that clients may set: no setuid or setgid, because clients are not
/// authenticated.
const PERMISSIONS: u32 = 0o777;

pub(crate) fn time(time: SystemTime) -> nfstime3 {
    nfstime3::try_from(time).unwrap_or_default()
}

pub(crate) fn to_fattr(space: u64, inode: u64, attributes: &PathAttributes) -> fattr3 {
    let PathAttributes { kind, size, blocks, mode, uid, gid, modified, changed, accessed, links } = *attributes;
    let type_ = match kind {
        EntryKind::Directory => ftype3::NF3DIR,
        EntryKind::File => ftype3::NF3REG,
        EntryKind::Symlink => ftype3::NF3LNK,
        EntryKind::Special(special) => match special.kind {
            SpecialKind::Fifo => ftype3::NF3FIFO,
            SpecialKind::Socket => ftype3::NF3SOCK,
            SpecialKind::CharacterDevice => ftype3::NF3CHR,
            SpecialKind::BlockDevice => ftype3::NF3BLK,
        },
    };
    fattr3 {
        type_,
        mode,
        nlink: links.max(1),
        uid,
        gid,
        size,
        used: blocks.saturating_mul(512),
        rdev: specdata3::default(),
        fsid: space,
        fileid: inode,
        atime: time(accessed),
        mtime: time(modified),
        ctime: time(changed),
    }
}

/// The part that clients compare before and after a change.
pub(crate) const fn to_wcc(attributes: &fattr3) -> wcc_attr {
    wcc_attr { size: attributes.size, mtime: attributes.mtime, ctime: attributes.ctime }
}

const fn optional<T: Copy + nfs3_types::xdr_codec::Pack + nfs3_types::xdr_codec::Unpack>(
    value: &Nfs3Option<T>,
) -> Option<T> {
    match value {
        Nfs3Option::Some(value) => Some(*value),
        Nfs3Option::None => None,
    }
}

/// The attributes that a client sets. The disk decides the owner: a request for another one is
/// refused.
pub(crate) fn parse_sattr(requested: &sattr3, current: Option<&PathAttributes>) -> Result<SetAttributes, NfsError> {
    if let Some(current) = current {
        let differs = |requested: Option<u32>, current: u32| requested.is_some_and(|requested| requested != current);
        if differs(optional(&requested.uid), current.uid) || differs(optional(&requested.gid), current.gid) {
            return Err(nfsstat3::NFS3ERR_PERM.into());
        }
    }
    Ok(SetAttributes {
        size: optional(&requested.size),
        mode: optional(&requested.mode).map(|mode| mode & PERMISSIONS),
        uid: None,
        gid: None,
        modified: match requested.mtime {
            set_mtime::DONT_CHANGE => None,
            set_mtime::SET_TO_SERVER_TIME => Some(SystemTime::now()),
            set_mtime::SET_TO_CLIENT_TIME(time) => Some(time.into()),
        },
        accessed: match requested.atime {
            set_atime::DONT_CHANGE => None,
            set_atime::SET_TO_SERVER_TIME => Some(SystemTime::now()),
            set_atime::SET_TO_CLIENT_TIME(time) => Some(time.into()),
        },
        handle: None,
    })
}

pub(crate) fn pseudo_root_attributes(spaces: usize) -> fattr3 {
    fattr3 {
        type_: ftype3::NF3DIR,
        mode: 0o555,
        nlink: u32::try_from(spaces).unwrap_or(u32::MAX).saturating_add(2),
        uid: 0,
        gid: 0,
        size: 4096,
        used: 4096,
        rdev: specdata3::default(),
        fsid: crate::file_handle::PSEUDO_ROOT_ID,
        fileid: crate::file_handle::PSEUDO_ROOT_ID,
        atime: time(UNIX_EPOCH),
        mtime: time(UNIX_EPOCH),
        ctime: time(UNIX_EPOCH),
    }
}
