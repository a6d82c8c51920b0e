//! Finds the modules of its own crate that a file uses: in `use`, and in paths in the code.

use crate::tidy::rust::{ident, is_path_sign, is_punct, line, names, plain};
use proc_macro2::{Delimiter, TokenTree};

/// A path within the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The path, from the crate's root.
    pub(super) path: Vec<String>,
    /// The name that a `use` gives it.
    pub(super) name: Option<String>,
    pub(super) line: usize,
}

/// Returns the imports in a module's production code.
pub(super) fn imports(tokens: &[TokenTree], module: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    walk(tokens, module, &mut found);
    found
}

/// Returns the modules that a file declares.
pub(super) fn declared(tokens: &[TokenTree]) -> Vec<String> {
    (0..tokens.len())
        .filter(|&at| names(tokens, at).as_deref() == Some("mod"))
        .filter_map(|at| names(tokens, at + 1))
        .collect()
}

fn walk(tokens: &[TokenTree], module: &[String], found: &mut Vec<Import>) {
    let children = declared(tokens);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                walk(&inside, module, found);
                at += 1;
            }
            TokenTree::Ident(word) if *word == "mod" => {
                let (name, body) = (names(tokens, at + 1), tokens.get(at + 2));
                if let (Some(name), Some(TokenTree::Group(body))) = (name, body) {
                    let inside: Vec<TokenTree> = body.stream().into_iter().collect();
                    let inner = [module, &[name]].concat();
                    walk(&inside, &inner, found);
                    at += 3;
                } else {
                    at += 1;
                }
            }
            TokenTree::Ident(word) if *word == "use" => {
                let end = tokens[at..]
                    .iter()
                    .position(|token| is_punct(Some(token), ';'))
                    .map_or(tokens.len(), |length| at + length);
                use_tree(&tokens[at + 1..end], module, &children, found);
                at = end;
            }
            TokenTree::Ident(_) => at = path(tokens, at, module, found),
            _ => at += 1,
        }
    }
}

/// Reads a path in code that begins with `crate`, `self` or `super`; returns the position after it.
fn path(tokens: &[TokenTree], at: usize, module: &[String], found: &mut Vec<Import>) -> usize {
    let is_start = at < 2 || !is_path_sign(tokens, at - 2);
    let Some(mut path) = is_start
        .then(|| root(&names(tokens, at)?, module))
        .flatten()
    else {
        return at + 1;
    };
    let mut next = at + 1;
    let mut length = 0;
    while is_path_sign(tokens, next) {
        let Some(name) = names(tokens, next + 2) else {
            break;
        };
        step(&mut path, name);
        length += 1;
        next += 3;
    }
    if length > 0 {
        found.push(Import {
            path,
            name: None,
            line: line(&tokens[at]),
        });
    }
    next
}

/// The module in which a path with this first word begins; `None` if it is outside of this crate.
fn root(word: &str, module: &[String]) -> Option<Vec<String>> {
    match word {
        "crate" => Some(Vec::new()),
        "self" => Some(module.to_vec()),
        "super" => Some(module[..module.len().saturating_sub(1)].to_vec()),
        _ => None,
    }
}

fn step(path: &mut Vec<String>, name: String) {
    match name.as_str() {
        "super" => {
            path.pop();
        }
        "self" => {}
        _ => path.push(name),
    }
}

/// Reads the tree between `use` and its semicolon.
fn use_tree(tokens: &[TokenTree], module: &[String], children: &[String], found: &mut Vec<Import>) {
    let Some(first) = names(tokens, 0) else {
        return;
    };
    let path = root(&first, module).or_else(|| {
        let child = children.contains(&first);
        child.then(|| [module, &[first]].concat())
    });
    if let Some(path) = path {
        branch(tokens, 1, path, found);
    }
}

/// Reads a branch of a `use` from `at`, which is after the path's words so far.
fn branch(tokens: &[TokenTree], mut at: usize, mut path: Vec<String>, found: &mut Vec<Import>) {
    let line_of = |at: usize| tokens.get(at).or(tokens.first()).map_or(0, line);
    while is_path_sign(tokens, at) {
        at += 2;
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) => {
                step(&mut path, plain(name));
                at += 1;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inside.split(|token| is_punct(Some(token), ',')) {
                    if let Some(name) = names(part, 0) {
                        let mut longer = path.clone();
                        step(&mut longer, name);
                        branch(part, 1, longer, found);
                    } else if !part.is_empty() {
                        found.push(Import {
                            path: path.clone(),
                            name: None,
                            line: line(&part[0]),
                        });
                    }
                }
                return;
            }
            _ => break,
        }
    }
    let renamed = ident(tokens, at).is_some_and(|word| word == "as");
    let name = if renamed {
        names(tokens, at + 1)
    } else {
        path.last().cloned()
    };
    found.push(Import {
        path,
        name,
        line: line_of(at.saturating_sub(1)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust::tokens;

    fn paths(text: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
        imports(&tokens(text).unwrap().production, &module)
            .into_iter()
            .map(|import| import.path.join("::"))
            .collect()
    }

    #[test]
    fn imports_and_paths_in_code_are_found() {
        let text = "use crate::b::{C, d::{E, self}, *};\nuse super::f as g;\nfn h() -> crate::i::J { super::super::k::l() }";
        let found = paths(text, &["a", "x"]);
        assert_eq!(
            found,
            ["b::C", "b::d::E", "b::d", "b", "a::f", "i::J", "k::l"]
        );
    }

    #[test]
    fn other_crates_and_visibilities_are_ignored() {
        let text = "use std::fmt; pub(crate) struct A; fn b() { core::mem::swap(); Self::c(); self.d(); a::crate_name(); }";
        assert_eq!(paths(text, &["a"]), [""; 0]);
    }

    #[test]
    fn inline_module_is_one_level_deeper() {
        assert_eq!(paths("mod b { use super::c::D; }", &["a"]), ["a::c::D"]);
    }

    #[test]
    fn re_exports_have_their_exported_name() {
        let found = imports(
            &tokens("mod b; pub use b::{C, D as E};").unwrap().production,
            &["a".to_owned()],
        );
        let named: Vec<_> = found
            .iter()
            .map(|import| (import.path.join("::"), import.name.clone().unwrap()))
            .collect();
        let pair = |path: &str, name: &str| (path.to_owned(), name.to_owned());
        assert_eq!(named, [pair("a::b::C", "C"), pair("a::b::D", "E")]);
    }
}
