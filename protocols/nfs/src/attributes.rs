//! Attributes, as the protocol writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use nfs3_types::nfs3::{
    Nfs3Option, fattr3, ftype3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, specdata3, wcc_attr,
};
use svcfs_vfs::{EntryKind, PathAttributes, SetAttributes, SpecialKind};

use crate::error::NfsError;

/// The permission bits that clients may set. Bits by which a program gets another user's rights are not among them: clients are not proved.
const PERMISSIONS: u32 = 0o777;

pub(crate) fn time(time: SystemTime) -> nfstime3 {
    nfstime3::try_from(time).unwrap_or_default()
}

/// What the protocol tells of a file.
pub(crate) fn told(space: u64, number: u64, attributes: &PathAttributes) -> fattr3 {
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
        fileid: number,
        atime: time(accessed),
        mtime: time(modified),
        ctime: time(changed),
    }
}

/// What is compared before and after a change.
pub(crate) const fn before(attributes: &fattr3) -> wcc_attr {
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

/// What a client sets. Owners are the disk's; one that stays is none to set.
pub(crate) fn to_set(asked: &sattr3, now: Option<&PathAttributes>) -> Result<SetAttributes, NfsError> {
    if let Some(now) = now {
        let is_other = |asked: Option<u32>, now: u32| asked.is_some_and(|asked| asked != now);
        if is_other(optional(&asked.uid), now.uid) || is_other(optional(&asked.gid), now.gid) {
            return Err(nfsstat3::NFS3ERR_PERM.into());
        }
    }
    Ok(SetAttributes {
        size: optional(&asked.size),
        mode: optional(&asked.mode).map(|mode| mode & PERMISSIONS),
        uid: None,
        gid: None,
        modified: match asked.mtime {
            set_mtime::DONT_CHANGE => None,
            set_mtime::SET_TO_SERVER_TIME => Some(SystemTime::now()),
            set_mtime::SET_TO_CLIENT_TIME(time) => Some(time.into()),
        },
        accessed: match asked.atime {
            set_atime::DONT_CHANGE => None,
            set_atime::SET_TO_SERVER_TIME => Some(SystemTime::now()),
            set_atime::SET_TO_CLIENT_TIME(time) => Some(time.into()),
        },
        handle: None,
    })
}

/// The attributes of the folder that has all spaces in it.
pub(crate) fn of_top(spaces: usize) -> fattr3 {
    fattr3 {
        type_: ftype3::NF3DIR,
        mode: 0o555,
        nlink: u32::try_from(spaces).unwrap_or(u32::MAX).saturating_add(2),
        uid: 0,
        gid: 0,
        size: 4096,
        used: 4096,
        rdev: specdata3::default(),
        fsid: crate::file_handle::TOP,
        fileid: crate::file_handle::TOP,
        atime: time(UNIX_EPOCH),
        mtime: time(UNIX_EPOCH),
        ctime: time(UNIX_EPOCH),
    }
}
