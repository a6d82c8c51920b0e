//! One text with many mutants: the body of a function becomes a `match` over the active mutant's
//! number, with an arm for each mutant and the body as it was for all other numbers.

use crate::mutants::list::Mutant;
use core::fmt::Write;
use core::ops::Range;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Iterators of different types become one type: each mutant is left of those after it.
const LEFT: &str = "crate::mutant::Either::Left(";
const RIGHT: &str = "crate::mutant::Either::Right(";

/// A text with switched mutants.
#[derive(Debug, Default)]
pub(super) struct Switched {
    pub(super) text: String,
    /// Where each mutant is.
    ranges: Vec<(Range<usize>, usize)>,
}

impl Switched {
    /// The mutant at this offset.
    pub(super) fn mutant_at(&self, offset: usize) -> Option<usize> {
        let mut ranges = self.ranges.iter();
        let found = ranges.find(|(range, _)| range.contains(&offset))?;
        Some(found.1)
    }
}

/// A function, and the numbers of its mutants.
#[derive(Debug)]
struct Function {
    body: Range<usize>,
    /// An iterator of some type: each body may return another type.
    is_iterator: bool,
    is_const: bool,
    mutants: Vec<usize>,
}

/// How a mutant can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As one of many in a build.
    Switched,
    /// Likewise, except for what the compiler computes.
    InConstFunction,
    /// In a build of its own: it is in a constant, or where the return type follows from the body.
    Apart,
}

pub(super) fn kind(text: &str, mutant: &Mutant) -> Kind {
    match function(text, mutant) {
        None => Kind::Apart,
        Some(it) if it.is_const => Kind::InConstFunction,
        Some(_) => Kind::Switched,
    }
}

/// The text with one mutant in place of what it changes.
pub(super) fn replaced(text: &str, mutant: &Mutant) -> String {
    changed(text, 0..text.len(), mutant)
}

/// The text with all these mutants, each with its number.
pub(super) fn switched(text: &str, mutants: &[(usize, &Mutant)]) -> Switched {
    let mut functions: Vec<Function> = Vec::new();
    for &(number, mutant) in mutants {
        let Some(found) = function(text, mutant) else {
            continue;
        };
        match functions.iter_mut().find(|it| it.body == found.body) {
            Some(function) => function.mutants.push(number),
            None => functions.push(Function {
                mutants: vec![number],
                ..found
            }),
        }
    }
    functions.sort_by_key(|it| it.body.start);
    let mut switched = Switched::default();
    put(&mut switched, text, 0..text.len(), &functions, mutants);
    switched
}

/// Appends a range of the text in which these functions are.
fn put(
    to: &mut Switched,
    text: &str,
    range: Range<usize>,
    mut functions: &[Function],
    mutants: &[(usize, &Mutant)],
) {
    let mut at = range.start;
    while let Some((function, rest)) = functions.split_first() {
        let body = function.body.clone();
        let inner = rest.partition_point(|it| it.body.start < body.end);
        let (inner, rest) = rest.split_at(inner);
        functions = rest;
        to.text.push_str(&text[at..body.start]);
        to.text.push_str("{ match crate::mutant::active() {\n");
        let mine = mutants.iter().filter(|it| function.mutants.contains(&it.0));
        let mut before = String::new();
        for &(number, mutant) in mine {
            let (left, right) = if function.is_iterator {
                (format!("{before}{LEFT}"), format!("){}", closing(&before)))
            } else {
                Default::default()
            };
            let begin = to.text.len();
            let changed = changed(text, body.clone(), mutant);
            // Writing to a string cannot fail.
            let _ = writeln!(to.text, "{number} => {left}{changed}{right},");
            to.ranges.push((begin..to.text.len(), number));
            if function.is_iterator {
                before += RIGHT;
            }
        }
        let _ = write!(to.text, "_ => {before}");
        put(to, text, body.clone(), inner, mutants);
        let _ = write!(to.text, "{}\n}} }}", closing(&before));
        at = body.end;
    }
    to.text.push_str(&text[at..range.end]);
}

/// The text of a range, with one mutant in it.
fn changed(text: &str, range: Range<usize>, mutant: &Mutant) -> String {
    let span = mutant.span.start.offset(text)..mutant.span.end.offset(text);
    let (before, after) = (&text[range.start..span.start], &text[span.end..range.end]);
    [before, &mutant.replacement, after].concat()
}

/// The parentheses that close the open ones.
fn closing(open: &str) -> String {
    ")".repeat(open.matches('(').count())
}

/// The function around a mutant, if the mutant can be switched in it.
fn function(text: &str, mutant: &Mutant) -> Option<Function> {
    let around = mutant.function.clone()?;
    let begin = around.start.offset(text);
    let all = &text[begin..around.end.offset(text)];
    let tokens: Vec<TokenTree> = all.parse::<TokenStream>().ok()?.into_iter().collect();
    let (TokenTree::Group(body), signature) = tokens.split_last()? else {
        return None;
    };
    if body.delimiter() != Delimiter::Brace {
        return None;
    }
    let returned = signature.windows(2).position(is_arrow);
    let returned = returned.map_or(&[][..], |at| &signature[at + 2..]);
    let mut words = returned.iter().map(ToString::to_string);
    let is_opaque = words.clone().any(|it| it == "impl");
    let is_iterator = words.any(|it| it == "Iterator");
    if is_opaque && !is_iterator {
        return None;
    }
    let mut signature = signature.iter().map(ToString::to_string);
    let is_const = signature.any(|it| it == "const");
    let bytes = body.span().byte_range();
    Some(Function {
        body: begin + bytes.start..begin + bytes.end,
        is_iterator: is_opaque,
        is_const,
        mutants: Vec::new(),
    })
}

fn is_arrow(tokens: &[TokenTree]) -> bool {
    let is =
        |at: usize, wanted| matches!(&tokens[at], TokenTree::Punct(it) if it.as_char() == wanted);
    is(0, '-') && is(1, '>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list;

    const TEXT: &str = "const A: u32 = 2 * 3;
/// Größe
const fn f(a: u32) -> u32 {
    a + 1
}
fn g(a: u32) -> impl Iterator<Item = u32> {
    fn h(a: u32) -> u32 { a * 2 }
    0..h(a)
}
";

    /// A mutant of the text: places are line and column.
    fn mutant(span: [u64; 4], function: Option<[u64; 4]>, replacement: &str) -> Mutant {
        let json = |[a, b, c, d]: [u64; 4]| serde_json::json!({"start": {"line": a, "column": b}, "end": {"line": c, "column": d}});
        let mutant = serde_json::json!([{
            "name": "", "file": "", "span": json(span), "replacement": replacement,
            "function": {"span": function.map(json)},
        }]);
        let mutants = list::parse(mutant.to_string().as_bytes());
        mutants.expect("a list").remove(0)
    }

    #[test]
    fn mutants_are_arms_and_the_body_is_the_last_arm() {
        let f = Some([2, 1, 5, 2]);
        let minus = mutant([4, 7, 4, 8], f, "-");
        let body = mutant([4, 5, 4, 10], f, "7");
        let switched = switched(TEXT, &[(3, &minus), (5, &body)]);
        let expected = "u32 { match crate::mutant::active() {
3 => {\n    a - 1\n},
5 => {\n    7\n},
_ => {\n    a + 1\n}
} }
fn g";
        assert!(switched.text.contains(expected), "{}", switched.text);
        let at = |text| switched.mutant_at(switched.text.find(text).expect("the text"));
        assert_eq!(
            (at("a - 1"), at("7"), at("a + 1")),
            (Some(3), Some(5), None)
        );
    }

    #[test]
    fn iterators_become_one_type_and_functions_may_be_in_functions() {
        let g = Some([6, 1, 9, 2]);
        let (one, two) = (mutant([8, 5, 8, 6], g, "1"), mutant([8, 5, 8, 6], g, "2"));
        let inner = mutant([7, 29, 7, 30], Some([7, 5, 7, 34]), "/");
        let switched = switched(TEXT, &[(0, &one), (1, &inner), (2, &two)]);
        let text = switched.text.replace("crate::mutant::", "");
        let copy = "fn h(a: u32) -> u32 { a * 2 }\n    ";
        let expected = format!(
            "{{ match active() {{
0 => Either::Left({{\n    {copy}1..h(a)\n}}),
2 => Either::Right(Either::Left({{\n    {copy}2..h(a)\n}})),
_ => Either::Right(Either::Right({{
    fn h(a: u32) -> u32 {{ match active() {{
1 => {{ a / 2 }},
_ => {{ a * 2 }}
}} }}
    0..h(a)
}}))
}} }}"
        );
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn mutants_of_constants_need_a_build_of_their_own() {
        let constant = mutant([1, 18, 1, 19], None, "+");
        assert_eq!(kind(TEXT, &constant), Kind::Apart);
        assert!(replaced(TEXT, &constant).starts_with("const A: u32 = 2 + 3;\n"));
        let f = mutant([4, 7, 4, 8], Some([2, 1, 5, 2]), "-");
        assert_eq!(kind(TEXT, &f), Kind::InConstFunction);
        let g = mutant([8, 5, 8, 6], Some([6, 1, 9, 2]), "1");
        assert_eq!(kind(TEXT, &g), Kind::Switched);
    }
}
