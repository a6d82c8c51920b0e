//! Parses which cgroups a process is in, and where their hierarchies are mounted.

use super::{lines, split_once};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A line of `/proc/<pid>/cgroup`: one hierarchy of cgroups, and where in it the process is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Membership {
    /// Controllers, or `name=…`; empty for version 2.
    pub(crate) controllers: Vec<String>,
    /// Path from the root of the reader's cgroup namespace. It begins with `/..` if the cgroup is
    /// outside.
    pub(crate) path: PathBuf,
}

/// A hierarchy of cgroups that is mounted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mount {
    /// The part of the hierarchy that is mounted: `/`, or a cgroup that a container has as its
    /// root.
    pub(crate) root: PathBuf,
    pub(crate) point: PathBuf,
    /// Controllers and other options; `None` for version 2.
    pub(crate) options: Option<Vec<String>>,
}

impl Mount {
    pub(crate) fn has(&self, controller: &str) -> bool {
        let mut options = self.options.iter().flatten();
        options.any(|option| option == controller)
    }

    /// Returns the directory of a cgroup; `None`: it is not below the root.
    pub(crate) fn directory(&self, path: &Path) -> Option<PathBuf> {
        // The path of a cgroup outside of the namespace goes up with `..`, and cannot be followed
        // from here.
        if path.components().any(|part| part.as_os_str() == "..") {
            return None;
        }
        let below = path.strip_prefix(&self.root).ok()?;
        if below.as_os_str().is_empty() {
            return Some(self.point.clone());
        }
        Some(self.point.join(below))
    }
}

/// Parses `/proc/<pid>/cgroup`: `hierarchy:controllers:path` on each line. The path itself may have
/// colons.
pub(crate) fn memberships(text: &[u8]) -> Option<Vec<Membership>> {
    lines(text)?
        .map(|line| {
            let (number, rest) = split_once(line, b':')?;
            super::number(number)?;
            let (controllers, path) = split_once(rest, b':')?;
            // The mark of a group that was removed meanwhile.
            let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
            path.starts_with(b"/").then(|| Membership {
                controllers: words(controllers),
                path: path_of(path.to_vec()),
            })
        })
        .collect()
}

/// Returns the cgroups among the mounts of `/proc/self/mountinfo`. Lines of other forms are
/// skipped.
pub(crate) fn mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(mount)
        .collect()
}

/// Parses `id parent major:minor root point options … - type source super-options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    fields.find(|field| *field == b"-")?;
    let kind = fields.next()?;
    let options = fields.nth(1)?;
    let options = match kind {
        b"cgroup2" => None,
        b"cgroup" => Some(words(options)),
        _ => return None,
    };
    Some(Mount {
        root: path_of(unescaped(root)),
        point: path_of(unescaped(point)),
        options,
    })
}

fn words(text: &[u8]) -> Vec<String> {
    text.split(|byte| *byte == b',')
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Decodes spaces and similar characters, which are written as three octal digits after a
/// backslash.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, behind) = octal(byte, behind).unwrap_or((byte, behind));
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

fn octal(byte: u8, behind: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, behind) = behind.split_first_chunk::<3>()?;
    let digits = core::str::from_utf8(digits).ok()?;
    let value = u8::from_str_radix(digits, 8).ok()?;
    (byte == b'\\' && !digits.starts_with('+')).then_some((value, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_of_both_versions_are_parsed() {
        let text = b"2:cpu,cpuacct:/system.slice/a:b\n1:name=systemd:/x\n0::/gone (deleted)\n";
        let groups = memberships(text).unwrap();
        assert_eq!(groups[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(groups[0].path, Path::new("/system.slice/a:b"));
        assert_eq!(groups[1].controllers, ["name=systemd"]);
        assert_eq!(groups[2].path, Path::new("/gone"));
        assert!(groups[2].controllers.is_empty());
        for broken in ["", "0:/\n", "x::/\n", "0::relative\n", "0::/"] {
            assert_eq!(memberships(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn cgroup_mounts_are_found_among_others() {
        let text = b"23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n\
            32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            41 31 0:38 / /mnt/with\\040space rw,relatime - cgroup2 cgroup2 rw\nnonsense\n";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 2);
        assert!(mounts[0].has("cpu") && mounts[0].has("cpuacct") && !mounts[0].has("memory"));
        assert_eq!(mounts[1].point, Path::new("/mnt/with space"));
        assert_eq!(mounts[1].options, None);
    }

    #[test]
    fn cgroup_directory_is_relative_to_the_mounted_root() {
        let mount = |root: &str| Mount {
            root: root.into(),
            point: "/cg".into(),
            options: None,
        };
        let directory = |root: &str, path: &str| mount(root).directory(Path::new(path));
        assert_eq!(directory("/", "/a/b"), Some("/cg/a/b".into()));
        assert_eq!(directory("/", "/"), Some("/cg".into()));
        assert_eq!(directory("/a", "/a/b"), Some("/cg/b".into()));
        assert_eq!(directory("/a", "/a"), Some("/cg".into()));
        assert_eq!(directory("/a", "/ab"), None, "another's name");
        assert_eq!(directory("/", "/../b"), None, "outside of the namespace");
    }
}
