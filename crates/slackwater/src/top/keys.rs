//! The actions of keys. The keys are those of `htop`, `less` and `k9s`; `screen::help` lists them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Stop the process, as the shell's job control does.
    Suspend,
    /// Leave the current mode or page.
    Back,
    /// Move this many rows down; up if negative.
    Move(isize),
    /// Move this many screens down; up if negative.
    Page(isize),
    First,
    Last,
    /// Open the replica's page.
    Open,
    /// Show the service this many places further; back if negative.
    Step(isize),
    /// The service of this number, from 0.
    Service(usize),
    /// Sort by the column this many places to the right.
    Sort(isize),
    Reverse,
    /// Start editing the filter.
    Filter,
    View(Page),
    Pause,
    Help,
    /// Add a character to the filter.
    Write(char),
    Erase,
    EraseAll,
    /// Keep the filter.
    Keep,
}

/// The page on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// A service's replicas.
    Fleet,
    /// Both sides of a demo.
    Sides,
    /// The reports that the next pick chooses from.
    Pool,
    /// The last minutes.
    Charts,
    /// One replica.
    Replica,
}

/// Returns the action of the key; `None` if it has none.
pub(super) fn action(key: KeyEvent, is_filter_written: bool) -> Option<Action> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('z') => Some(Action::Suspend),
            KeyCode::Char('u') if is_filter_written => Some(Action::EraseAll),
            KeyCode::Char('h') if is_filter_written => Some(Action::Erase),
            _ if is_filter_written => None,
            KeyCode::Char('d' | 'f') => Some(Action::Page(1)),
            KeyCode::Char('u' | 'b') => Some(Action::Page(-1)),
            KeyCode::Char('n') => Some(Action::Move(1)),
            KeyCode::Char('p') => Some(Action::Move(-1)),
            _ => None,
        };
    }
    // These keys move through the list also while its filter is edited.
    let everywhere = match key.code {
        KeyCode::Up => Some(Action::Move(-1)),
        KeyCode::Down => Some(Action::Move(1)),
        KeyCode::PageUp => Some(Action::Page(-1)),
        KeyCode::PageDown => Some(Action::Page(1)),
        KeyCode::Esc => Some(Action::Back),
        KeyCode::F(1) => Some(Action::Help),
        KeyCode::F(10) => Some(Action::Quit),
        _ => None,
    };
    if everywhere.is_some() {
        return everywhere;
    }
    if is_filter_written {
        return match key.code {
            KeyCode::Char(character) => Some(Action::Write(character)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::Keep),
            _ => None,
        };
    }
    let action = match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Backspace => Action::Back,
        KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Char('j') => Action::Move(1),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Enter => Action::Open,
        KeyCode::Tab => Action::Step(1),
        KeyCode::BackTab => Action::Step(-1),
        KeyCode::Right | KeyCode::F(6) | KeyCode::Char('>' | '.' | 's') => Action::Sort(1),
        KeyCode::Left | KeyCode::Char('<' | ',' | 'S') => Action::Sort(-1),
        KeyCode::Char('r' | 'I') => Action::Reverse,
        KeyCode::F(4) | KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('f') => Action::View(Page::Fleet),
        KeyCode::Char('p') => Action::View(Page::Pool),
        KeyCode::Char('c') => Action::View(Page::Charts),
        KeyCode::Char('v') => Action::View(Page::Sides),
        KeyCode::Char(' ' | 'Z') => Action::Pause,
        KeyCode::Char('?' | 'h') => Action::Help,
        KeyCode::Char(digit @ '1'..='9') => Action::Service(digit as usize - '1' as usize),
        _ => return None,
    };
    Some(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_type_into_the_filter_only_while_it_is_edited() {
        let q = key(KeyCode::Char('q'));
        assert_eq!(action(q, false), Some(Action::Quit));
        assert_eq!(action(q, true), Some(Action::Write('q')));
        let enter = key(KeyCode::Enter);
        assert_eq!(action(enter, false), Some(Action::Open));
        assert_eq!(action(enter, true), Some(Action::Keep));
        let down = key(KeyCode::Down);
        assert_eq!(action(down, true), action(down, false));
        assert_eq!(action(key(KeyCode::Esc), true), Some(Action::Back));
        assert_eq!(action(key(KeyCode::Tab), true), None);
    }

    #[test]
    fn control_c_always_quits_and_digits_are_services() {
        let control = |code| KeyEvent::new(KeyCode::Char(code), KeyModifiers::CONTROL);
        for is_filter_written in [false, true] {
            assert_eq!(action(control('c'), is_filter_written), Some(Action::Quit));
            assert_eq!(
                action(control('z'), is_filter_written),
                Some(Action::Suspend)
            );
        }
        assert_eq!(action(control('u'), true), Some(Action::EraseAll));
        assert_eq!(action(control('u'), false), Some(Action::Page(-1)));
        assert_eq!(action(control('d'), true), None);
        assert_eq!(
            action(key(KeyCode::Char('1')), false),
            Some(Action::Service(0))
        );
        assert_eq!(
            action(key(KeyCode::Char('9')), false),
            Some(Action::Service(8))
        );
        assert_eq!(action(key(KeyCode::Char('0')), false), None);
    }
}
