//! The example prints what its documentation shows.

#[path = "../examples/by_hand.rs"]
#[expect(dead_code, reason = "the example's `main` is not called")]
mod by_hand;

#[test]
fn example_prints_its_documented_output() {
    let mut printed = Vec::new();
    by_hand::play(by_hand::config().expect("in range"), &mut printed).expect("memory");
    let printed = String::from_utf8(printed).expect("text");
    let documented: String = include_str!("../examples/by_hand.rs")
        .lines()
        .skip_while(|line| !line.starts_with("//! cargo run"))
        .skip(2)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//! ").to_owned() + "\n")
        .collect();
    assert_eq!(printed, documented);
}
