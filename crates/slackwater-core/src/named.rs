//! Enums whose variants have names, each written once.

/// Declares an enum of plain variants, each with its name. `ALL` has them in order, and the method
/// behind `by` returns a variant's name.
///
/// ```
/// slackwater_core::named! {
///     /// Where a query goes first.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Side by as_str {
///         /// There.
///         Left = "left",
///         /// Or there.
///         Right = "right",
///     }
/// }
/// assert_eq!(Side::ALL.map(Side::as_str), ["left", "right"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident by $method:ident {
        $($(#[$of_variant:meta])* $variant:ident = $text:expr,)+
    }) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$of_variant])* $variant,)+ }

        impl $name {
            /// Each of them, in order.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Its name, for programs and people.
            $vis const fn $method(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}
