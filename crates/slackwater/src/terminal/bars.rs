//! Bars from block characters: horizontal, vertical, and a small chart on a logarithmic scale.

const EIGHTHS_LYING: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const EIGHTHS_STANDING: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The end of the scale for bars of which the longest so far was `high`: 32 or the next doubling.
/// So the scale rarely changes, and a lightly loaded fleet has short bars.
pub(crate) fn scale(high: u32) -> u32 {
    high.max(32).checked_next_power_of_two().unwrap_or(u32::MAX)
}

/// A horizontal bar of `value` on a scale that ends at `end`, in at most `columns`. Any value above
/// zero is visible.
pub(crate) fn lying(value: u32, end: u32, columns: usize) -> String {
    let eighths = eighths(value, end, columns);
    let mut bar = EIGHTHS_LYING[8].to_string().repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS_LYING[eighths % 8]);
    }
    bar
}

/// Vertical bars, one for every `spacing` columns, in `rows` lines from the top. Any value above
/// zero is visible.
pub(crate) fn standing(values: &[u32], end: u32, rows: usize, spacing: usize) -> Vec<String> {
    let row = |row: usize| {
        let below = (rows - 1 - row) * 8;
        let mut blocks = String::new();
        for value in values {
            let eighths = eighths(*value, end, rows);
            blocks.push(EIGHTHS_STANDING[eighths.saturating_sub(below).min(8)]);
            blocks.extend(core::iter::repeat_n(' ', spacing.saturating_sub(1)));
        }
        blocks
    };
    (0..rows).map(row).collect()
}

fn eighths(value: u32, end: u32, length: usize) -> usize {
    let most = length as u64 * 8;
    let share = u64::from(value.min(end)) * most / u64::from(end.max(1));
    let least = u64::from(value > 0).min(most);
    usize::try_from(share.max(least)).unwrap_or(0)
}

/// The small chart's scale: from the lowest block at 10 ms to the highest at 10 s.
const CHART_MS: (f64, f64) = (10.0, 10_000.0);

/// One value as a block on the logarithmic scale; a blank for none.
pub(crate) fn chart(value_ms: Option<f64>) -> char {
    let Some(ms) = value_ms else { return ' ' };
    let (low, high) = CHART_MS;
    let share = (ms.max(low) / low).ln() / (high / low).ln();
    let steps = (share * 8.0).ceil().clamp(1.0, 8.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 1 to 8; not a number reads as 1"
    )]
    let index = steps as usize;
    EIGHTHS_STANDING[index.clamp(1, 8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_grows_in_doublings_from_32() {
        assert_eq!(
            [0, 32, 33, 100, u32::MAX].map(scale),
            [32, 32, 64, 128, u32::MAX]
        );
    }

    #[test]
    fn horizontal_bars_have_eighths_and_show_any_nonzero_value() {
        let bars = [0, 1, 4, 16, 19, 32, 99].map(|value| lying(value, 32, 4));
        assert_eq!(bars, ["", "▏", "▌", "██", "██▍", "████", "████"]);
        assert_eq!(lying(1, 512, 4), "▏");
        assert_eq!(lying(1, 0, 0), "");
    }

    #[test]
    fn vertical_bars_fill_rows_from_the_bottom() {
        let bars = standing(&[0, 1, 16, 24, 32], 32, 2, 1);
        assert_eq!(bars, ["   ▄█", " ▁███"]);
        assert_eq!(standing(&[8, 16], 32, 1, 2), ["▂ ▄ "]);
        assert!(standing(&[], 32, 0, 1).is_empty());
    }

    #[test]
    fn the_chart_is_logarithmic() {
        let blocks = [
            None,
            Some(1.0),
            Some(20.0),
            Some(100.0),
            Some(1_000.0),
            Some(20_000.0),
        ];
        assert_eq!(blocks.map(chart), [' ', '▁', '▁', '▃', '▆', '█']);
    }
}
