//! The volumes of pods: folders whose files are replaced all at once, by a link, as the kubelet
//! does it, so that programs that follow them see what they see in a cluster.

use super::api::Api;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A volume that follows an object of the API server.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    source: Source,
    /// Number of times that it was written.
    generation: u32,
}

#[derive(Debug)]
enum Source {
    /// A `ConfigMap`'s name, and the version that was written last.
    ConfigMap(String, String),
    /// The token of the pod's service account.
    Token(String),
    Empty,
}

/// What volumes are filled from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents<'a> {
    pub(super) api: &'a Api,
    pub(super) namespace: &'a str,
    /// The certificate of the API server's authority.
    pub(super) authority: &'a Path,
}

impl Volume {
    /// Creates and fills a volume of a pod.
    pub(super) fn new(
        volume: &Value,
        account: &str,
        folder: &Path,
        contents: Contents<'_>,
    ) -> Result<Self, String> {
        let name = volume["name"].as_str().unwrap_or_default().to_owned();
        let source = if let Some(name) = volume["configMap"]["name"].as_str() {
            Source::ConfigMap(name.to_owned(), String::new())
        } else if volume["projected"].is_object() {
            Source::Token(account.to_owned())
        } else if volume["emptyDir"].is_object() {
            Source::Empty
        } else {
            return Err(format!("a volume of an unknown kind: {volume}"));
        };
        let folder = folder.join(&name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut volume = Self {
            name,
            folder,
            source,
            generation: 0,
        };
        volume.refresh(contents)?;
        if let Source::Token(account) = &volume.source {
            let token = contents.api.token_of(contents.namespace, account)?;
            volume.write_token(&token, contents)?;
        }
        Ok(volume)
    }

    /// Writes the files again if the object has changed.
    pub(super) fn refresh(&mut self, contents: Contents<'_>) -> Result<(), String> {
        let Source::ConfigMap(name, written) = &self.source else {
            return Ok(());
        };
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/{name}",
            contents.namespace
        );
        let map = contents.api.get(&path)?;
        let version = map["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        if version == written {
            return Ok(());
        }
        let files = map["data"].as_object().into_iter().flatten();
        let files =
            files.map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned()));
        let source = Source::ConfigMap(name.clone(), version.to_owned());
        self.write(&files.collect())?;
        self.source = source;
        Ok(())
    }

    /// Whether it has the pod's token.
    pub(super) const fn has_token(&self) -> bool {
        matches!(self.source, Source::Token(_))
    }

    /// Replaces the token.
    pub(super) fn write_token(
        &mut self,
        token: &str,
        contents: Contents<'_>,
    ) -> Result<(), String> {
        let authority = fs::read_to_string(contents.authority)
            .map_err(|error| format!("{}: {error}", contents.authority.display()))?;
        let files = [
            ("token", token.to_owned()),
            ("ca.crt", authority),
            ("namespace", contents.namespace.to_owned()),
        ];
        self.write(&files.map(|(name, text)| (name.to_owned(), text)).into())
    }

    /// Puts the files into a new folder, and then the link to it in place of the old link.
    fn write(&mut self, files: &BTreeMap<String, String>) -> Result<(), String> {
        self.generation += 1;
        let name = format!("..{}", self.generation);
        let put = || -> std::io::Result<()> {
            let new = self.folder.join(&name);
            fs::create_dir(&new)?;
            for (file, text) in files {
                fs::write(new.join(file), text)?;
                let link = self.folder.join(file);
                if !link.is_symlink() {
                    symlink(Path::new("..data").join(file), link)?;
                }
            }
            let link = self.folder.join("..new");
            symlink(&name, &link)?;
            fs::rename(&link, self.folder.join("..data"))
        };
        put().map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn files_change_all_at_once_behind_the_same_paths() {
        let folder = Folder::new("volumes", false).unwrap();
        let mut volume = Volume {
            name: "config".to_owned(),
            folder: folder.path.clone(),
            source: Source::Empty,
            generation: 0,
        };
        for text in ["one", "two"] {
            volume
                .write(&[("file".to_owned(), text.to_owned())].into())
                .unwrap();
            let file = folder.path.join("file");
            assert!(file.is_symlink());
            assert_eq!(fs::read_to_string(file).unwrap(), text);
        }
        let data = fs::read_link(folder.path.join("..data")).unwrap();
        assert_eq!(data, Path::new("..2"));
    }
}
