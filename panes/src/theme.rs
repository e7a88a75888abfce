//! Colours and glyphs. Nothing is said by colour alone.

use ratatui::style::{Color, Modifier, Style};

/// The themes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light background.
    Light,
    /// No colour: bold, reverse and underline only.
    Mono,
}

impl ThemeName {
    /// All themes.
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Mono];

    /// The theme of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Mono => "mono",
        }
    }
}

/// What a piece of text is, so that a theme can say how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// What is read.
    Text,
    /// What matters most in its line.
    Strong,
    /// Labels, units and hints.
    Dim,
    /// Rules and axes.
    Rule,
    /// The focused pane's rule and title.
    Focus,
    /// All is well.
    Good,
    /// Text that a client sees to be wrong, and canary violations.
    Corrupt,
    /// Rows that differ from the step oracle's.
    Diverged,
    /// Worth a look.
    Warning,
    /// Asked for, not yet acknowledged.
    Pending,
    /// A key in the key bar.
    Key,
    /// The selected row; only a background or a modifier, to lie over other ink.
    Selected,
    /// A banner that must not be overlooked.
    Banner,
}

/// Glyphs that a terminal without Unicode lacks. Each takes one cell.
#[derive(Debug)]
pub struct Glyphs {
    /// Rule above a pane.
    pub rule: &'static str,
    /// Rule above the focused pane.
    pub heavy_rule: &'static str,
    /// What stands before the selected row.
    pub cursor: &'static str,
    /// What stands for the rest of a text.
    pub ellipsis: &'static str,
    /// Mark of corrupt text.
    pub corrupt: &'static str,
    /// Mark of a diverged row.
    pub diverged: &'static str,
    /// Mark of what is well.
    pub good: &'static str,
    /// A change from one value to another.
    pub arrow: &'static str,
    /// Between items of a line.
    pub dot: &'static str,
    /// Sorted with the largest first, and with the smallest first.
    pub sorted: [&'static str; 2],
    /// Bars of rising height, the first one empty.
    pub bars: [&'static str; 9],
    /// Pages by recency of their last write: never, long ago, ..., just now.
    pub heat: [&'static str; 5],
    /// Left edge of a span.
    pub span_edge: &'static str,
    /// A cell that holds several spans.
    pub dense: &'static str,
    /// A lane at rest.
    pub idle: &'static str,
    /// Tick of an axis.
    pub tick: &'static str,
    /// Borders of an overlay: corners from the top left clockwise, then the
    /// horizontal and the vertical line.
    pub frame: [&'static str; 6],
    /// Between two bounds.
    pub range: &'static str,
}

static UNICODE: Glyphs = Glyphs {
    rule: "─",
    heavy_rule: "━",
    cursor: "▸",
    ellipsis: "…",
    corrupt: "✗",
    diverged: "≠",
    good: "✓",
    arrow: "→",
    dot: "·",
    sorted: ["↓", "↑"],
    bars: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    heat: ["·", "░", "▒", "▓", "█"],
    span_edge: "▏",
    dense: "▒",
    idle: "─",
    tick: "┴",
    frame: ["┌", "┐", "┘", "└", "─", "│"],
    range: "–",
};

static ASCII: Glyphs = Glyphs {
    rule: "-",
    heavy_rule: "=",
    cursor: ">",
    ellipsis: "~",
    corrupt: "X",
    diverged: "D",
    good: "+",
    arrow: ">",
    dot: "|",
    sorted: ["v", "^"],
    bars: [" ", ".", ".", ":", "-", "=", "+", "*", "#"],
    heat: [".", ":", "+", "*", "#"],
    span_edge: "|",
    dense: "%",
    idle: "-",
    tick: "'",
    frame: ["+", "+", "+", "+", "-", "|"],
    range: "-",
};

/// How a console looks.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    name: ThemeName,
    /// The glyphs to draw with.
    pub glyphs: &'static Glyphs,
}

impl Default for Theme {
    fn default() -> Self {
        Self::new(ThemeName::default(), false)
    }
}

impl Theme {
    /// A theme, with ASCII glyphs where the terminal has no others.
    pub fn new(name: ThemeName, ascii: bool) -> Self {
        Self { name, glyphs: if ascii { &ASCII } else { &UNICODE } }
    }

    /// Which theme it is.
    pub fn name(self) -> ThemeName {
        self.name
    }

    /// How `ink` looks.
    pub fn ink(self, ink: Ink) -> Style {
        let colours = match self.name {
            ThemeName::Mono => return Self::mono(ink),
            ThemeName::Dark => &DARK,
            ThemeName::Light => &LIGHT,
        };
        let style = Style::new();
        match ink {
            Ink::Text => style,
            Ink::Strong => style.bold(),
            Ink::Dim => style.fg(colours.dim),
            Ink::Rule => style.fg(colours.rule),
            Ink::Focus => style.fg(colours.focus).bold(),
            Ink::Good => style.fg(colours.good),
            Ink::Corrupt => style.fg(colours.corrupt).bold(),
            Ink::Diverged => style.fg(colours.diverged),
            Ink::Warning => style.fg(colours.warning),
            Ink::Pending => style.fg(colours.pending).italic(),
            Ink::Key => style.fg(colours.focus),
            Ink::Selected => style.bg(colours.selected),
            Ink::Banner => style.fg(Color::Indexed(16)).bg(colours.banner).bold(),
        }
    }

    fn mono(ink: Ink) -> Style {
        let style = Style::new();
        match ink {
            Ink::Text | Ink::Good => style,
            Ink::Strong | Ink::Focus | Ink::Key | Ink::Warning => style.bold(),
            Ink::Dim | Ink::Rule => style.dim(),
            Ink::Corrupt => style.bold().reversed(),
            Ink::Diverged => style.bold().underlined(),
            Ink::Pending => style.italic().underlined(),
            Ink::Selected => style.reversed(),
            Ink::Banner => style.bold().reversed(),
        }
    }

    /// How a page looks by the recency of its last write, as [`Glyphs::heat`] counts it.
    pub fn heat(self, level: usize) -> Style {
        let ramp = match self.name {
            ThemeName::Dark => [238, 24, 31, 38, 159],
            ThemeName::Light => [250, 153, 74, 31, 17],
            ThemeName::Mono => return Style::new(),
        };
        Style::new().fg(Color::Indexed(ramp[level.min(ramp.len() - 1)]))
    }

    /// How a span on a lane looks; neighbours alternate in `odd`.
    pub fn span(self, lane: usize, odd: bool) -> Style {
        let palette = match self.name {
            ThemeName::Dark => &DARK_LANES,
            ThemeName::Light => &LIGHT_LANES,
            ThemeName::Mono if odd => {
                return Style::new().add_modifier(Modifier::REVERSED | Modifier::DIM);
            }
            ThemeName::Mono => return Style::new().reversed(),
        };
        let colour = palette[lane % palette.len()][usize::from(odd)];
        Style::new().fg(Color::Indexed(16)).bg(Color::Indexed(colour))
    }

    /// How the cell under a cursor looks.
    pub fn cursor(self) -> Style {
        match self.name {
            ThemeName::Mono => Style::new().bold().reversed(),
            _ => self.selected_span(),
        }
    }

    /// How the span under the cursor looks.
    pub fn selected_span(self) -> Style {
        match self.name {
            ThemeName::Dark => Style::new().fg(Color::Indexed(16)).bg(Color::Indexed(231)).bold(),
            ThemeName::Light => Style::new().fg(Color::Indexed(231)).bg(Color::Indexed(16)).bold(),
            ThemeName::Mono => Style::new().bold().underlined(),
        }
    }
}

struct Colours {
    dim: Color,
    rule: Color,
    focus: Color,
    good: Color,
    corrupt: Color,
    diverged: Color,
    warning: Color,
    pending: Color,
    selected: Color,
    banner: Color,
}

// The 256-colour palette: every terminal in use has it, true colour is missing in some.
static DARK: Colours = Colours {
    dim: Color::Indexed(245),
    rule: Color::Indexed(239),
    focus: Color::Indexed(117),
    good: Color::Indexed(114),
    corrupt: Color::Indexed(203),
    diverged: Color::Indexed(221),
    warning: Color::Indexed(215),
    pending: Color::Indexed(183),
    selected: Color::Indexed(237),
    banner: Color::Indexed(221),
};
static LIGHT: Colours = Colours {
    dim: Color::Indexed(242),
    rule: Color::Indexed(250),
    focus: Color::Indexed(25),
    good: Color::Indexed(28),
    corrupt: Color::Indexed(160),
    diverged: Color::Indexed(130),
    warning: Color::Indexed(166),
    pending: Color::Indexed(91),
    selected: Color::Indexed(254),
    banner: Color::Indexed(221),
};

static DARK_LANES: [[u8; 2]; 6] = [[74, 67], [108, 71], [180, 137], [175, 132], [80, 73], [186, 143]];
static LIGHT_LANES: [[u8; 2]; 6] = [[117, 153], [114, 157], [216, 223], [182, 219], [116, 159], [222, 229]];
