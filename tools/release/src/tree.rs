//! A tree of files in memory, from which each archive is written: the same input gives the same
//! bytes, on every machine.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// A file or a folder. Owner and group are always root.
#[derive(Debug, Clone)]
enum Node {
    Folder { mode: u32 },
    File { mode: u32, bytes: Rc<[u8]> },
}

/// Files by their path, which has no slash at its beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Tree {
    /// Adds a file, and the folders above it.
    pub(crate) fn file(&mut self, path: &str, bytes: impl Into<Rc<[u8]>>) {
        self.add(path, 0o644, bytes.into());
    }

    /// Adds a file that can be run.
    pub(crate) fn program(&mut self, path: &str, bytes: impl Into<Rc<[u8]>>) {
        self.add(path, 0o755, bytes.into());
    }

    /// Adds a folder, and the folders above it.
    pub(crate) fn folder(&mut self, path: &str) {
        self.parents(path);
        let folder = Node::Folder { mode: 0o755 };
        self.0.entry(path.to_owned()).or_insert(folder);
    }

    fn add(&mut self, path: &str, mode: u32, bytes: Rc<[u8]>) {
        self.parents(path);
        self.0.insert(path.to_owned(), Node::File { mode, bytes });
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
    }

    /// Paths and contents of all files, in order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, node)| match node {
            Node::File { bytes, .. } => Some((path.as_str(), &**bytes)),
            Node::Folder { .. } => None,
        })
    }

    /// Returns the tree below a folder.
    pub(crate) fn below(&self, folder: &str) -> Self {
        let mut tree = Self::default();
        tree.folder(folder);
        let nodes = self.0.iter();
        let nodes = nodes.map(|(path, node)| (format!("{folder}/{path}"), node.clone()));
        tree.0.extend(nodes);
        tree
    }

    /// A tar archive; `time` is the modification time of everything in it, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// A path cannot be written in an archive.
    pub(crate) fn tar(&self, time: u64) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, node) in &self.0 {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root")?;
            header.set_groupname("root")?;
            let (path, mode, bytes) = match node {
                Node::Folder { mode } => (format!("{path}/"), mode, &[][..]),
                Node::File { mode, bytes } => (path.clone(), mode, &**bytes),
            };
            header.set_mode(*mode);
            header.set_size(bytes.len() as u64);
            if path.ends_with('/') {
                header.set_entry_type(tar::EntryType::Directory);
            }
            // The library would drop the dot at the beginning of paths in Debian's packages.
            if let Some(field) = header.as_old_mut().name.get_mut(..path.len()) {
                field.copy_from_slice(path.as_bytes());
                header.set_cksum();
                archive.append(&header, bytes)?;
            } else {
                archive.append_data(&mut header, path, bytes)?;
            }
        }
        archive.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.program("usr/bin/a", *b"program");
        tree.file("usr/share/b", *b"text");
        tree.folder("etc/empty");
        tree
    }

    #[test]
    fn archive_has_parents_modes_and_nothing_of_this_machine() {
        let tar = tree().below("top").tar(1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(&tar[..]);
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.username().unwrap(), Some("root"));
            let path = entry.path().unwrap().display().to_string();
            found.push(format!("{path} {:o} {text}", header.mode().unwrap()));
        }
        let expected = [
            "top/ 755 ",
            "top/etc/ 755 ",
            "top/etc/empty/ 755 ",
            "top/usr/ 755 ",
            "top/usr/bin/ 755 ",
            "top/usr/bin/a 755 program",
            "top/usr/share/ 755 ",
            "top/usr/share/b 644 text",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn order_of_additions_does_not_matter() {
        let mut other = Tree::default();
        other.folder("etc/empty");
        other.file("usr/share/b", *b"text");
        other.program("usr/bin/a", *b"program");
        assert_eq!(other.tar(7).unwrap(), tree().tar(7).unwrap());
        assert_ne!(other.tar(8).unwrap(), tree().tar(7).unwrap());
    }

    #[test]
    fn paths_longer_than_a_header_are_kept() {
        let path = format!("{}/b", "a".repeat(150));
        let mut tree = Tree::default();
        tree.file(&path, *b"x");
        let tar = tree.tar(0).unwrap();
        let mut archive = tar::Archive::new(&tar[..]);
        let last = archive.entries().unwrap().last().unwrap().unwrap();
        assert_eq!(last.path().unwrap().display().to_string(), path);
    }
}
