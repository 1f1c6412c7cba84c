//! Names that change while others use them.

use std::sync::Barrier;
use std::thread;

use nfs3_types::nfs3::{createhow3, nfs_fh3, nfsstat3, sattr3, stable_how};

use super::Served;

const ROUNDS: usize = 150;

/// Makes a file as soon as its name is free, and writes it.
fn make_once_free(served: &Served, root: &nfs_fh3, name: &str, content: &str) -> nfs_fh3 {
    for _ in 0..1_000_000 {
        match served.create_as(root, name, createhow3::GUARDED(sattr3::default())) {
            Ok(made) => {
                served.write(&made, 0, content.as_bytes(), stable_how::UNSTABLE).unwrap();
                return made;
            }
            Err(status) => assert_eq!(status, nfsstat3::NFS3ERR_EXIST),
        }
    }
    panic!("`{name}` does not become free")
}

fn content(served: &Served, file: &nfs_fh3) -> String {
    String::from_utf8(served.read(file, 0, 1000).unwrap().0).unwrap()
}

#[test]
fn a_file_created_while_its_name_is_renamed_is_another_file() {
    let served = Served::new();
    let root = served.root();
    let mut old = make_once_free(&served, &root, "log", "round 0\n");
    for round in 1..=ROUNDS {
        let (before, after) = (format!("round {}\n", round - 1), format!("round {round}\n"));
        let moved = format!("log.{round}");
        let together = Barrier::new(4);
        let new = thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                served.rename((&root, "log"), (&root, &moved)).unwrap();
            });
            scope.spawn(|| {
                together.wait();
                for _ in 0..5 {
                    served.write(&old, 0, before.as_bytes(), stable_how::UNSTABLE).unwrap();
                    assert_eq!(content(&served, &old), before, "through a handle that was there");
                }
            });
            scope.spawn(|| {
                together.wait();
                for _ in 0..5 {
                    if let Ok(found) = served.lookup(&root, "log")
                        && found != old
                    {
                        assert_ne!(content(&served, &found), before, "through the handle of another file");
                    }
                }
            });
            let maker = scope.spawn(|| {
                together.wait();
                make_once_free(&served, &root, "log", &after)
            });
            maker.join().unwrap()
        });
        assert_ne!(new, old);
        assert_eq!((content(&served, &old), content(&served, &new)), (before, after), "round {round}");
        assert_eq!(served.lookup(&root, &moved).unwrap(), old);
        assert_eq!(served.lookup(&root, "log").unwrap(), new);
        old = new;
    }
    served.protocol.exports().open.iter().for_each(|export| export.save_all());
    for round in 1..=ROUNDS {
        assert_eq!(served.text(&format!("log.{round}")), Some(format!("round {}\n", round - 1)));
    }
}

#[test]
fn a_file_that_is_made_while_its_name_is_removed_stays() {
    let served = Served::new();
    let root = served.root();
    make_once_free(&served, &root, "lock", "round 0\n");
    for round in 1..=ROUNDS {
        let mine = format!("round {round}\n");
        let together = Barrier::new(2);
        let made = thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                served.remove(&root, "lock").unwrap();
            });
            let maker = scope.spawn(|| {
                together.wait();
                make_once_free(&served, &root, "lock", &mine)
            });
            maker.join().unwrap()
        });
        assert_eq!(content(&served, &made), mine);
        assert_eq!(served.lookup(&root, "lock").unwrap(), made);
        served.commit(&made).unwrap();
        assert_eq!(served.text("lock"), Some(mine));
    }
}
