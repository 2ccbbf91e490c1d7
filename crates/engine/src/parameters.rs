//! Parameters of strategies: each is declared once, as a field of its strategy, and flags, names of experiments and the
//! Python package follow from that.

use nextpair_core::Amount;

/// The kind of a parameter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A count or a share.
    Amount,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A value of a parameter, which goes in and out as text.
pub trait Value {
    /// The kind of values.
    fn kind(&self) -> Kind;

    /// The value, or nothing if it is unset.
    fn text(&self) -> String;

    /// Sets the value. The error says what is wrong with the text.
    fn set(&mut self, text: &str) -> Result<(), String>;
}

/// A parameter of a strategy.
pub struct Parameter<'a> {
    /// What it means, in one sentence.
    pub about: &'static str,
    /// Its value.
    pub value: &'a mut dyn Value,
    field: &'static str,
}

impl Parameter<'_> {
    /// Its name in Python.
    pub fn name(&self) -> &'static str {
        self.field
    }

    /// Its flag on the command line, without dashes.
    pub fn flag(&self) -> String {
        match self.field {
            // `train` has a temperature of its own.
            "temperature" => "entropy-temperature".to_owned(),
            field => field.replace('_', "-"),
        }
    }

    /// Its name in those of arms, such as `core-set+bow` and `hard-negative+top-5`, where the value follows after a dash;
    /// a choice is named by its value alone.
    pub fn short(&self) -> String {
        match self.field {
            "sample" => "mini".to_owned(),
            "top_k" => "top".to_owned(),
            field => field.replace('_', "-"),
        }
    }

    /// What stands for its value: the first letter of the last word of its name, where a number may be a fraction or the
    /// word is that letter.
    pub fn letter(&self) -> String {
        let word = self.field.rsplit('_').next().unwrap_or_default();
        match self.value.kind() {
            Kind::Amount => "M".to_owned(),
            Kind::Whole if word.len() > 1 => "N".to_owned(),
            _ => word.chars().take(1).collect::<String>().to_uppercase(),
        }
    }

    /// Its value in the name of an arm.
    pub(crate) fn option(&self) -> String {
        match self.value.kind() {
            Kind::Choice(_) => self.value.text(),
            _ => format!("{}-{}", self.short(), self.value.text()),
        }
    }

    /// Its form in the names of arms.
    pub fn form(&self) -> String {
        match self.value.kind() {
            Kind::Choice(words) => words.join(", "),
            Kind::Whole | Kind::Number => format!("{}-{}", self.short(), self.letter()),
            Kind::Amount => format!("full, {}-{}", self.short(), self.letter()),
        }
    }

    /// The text of its value, if an option of an arm's name is for this parameter.
    pub(crate) fn value_of<'t>(&self, option: &'t str) -> Option<&'t str> {
        match self.value.kind() {
            Kind::Choice(words) => words.contains(&option).then_some(option),
            Kind::Amount if option == "full" => Some(""),
            _ => {
                let value = option.strip_prefix(&self.short())?.strip_prefix('-')?;
                Some(value).filter(|value| !value.is_empty())
            }
        }
    }
}

/// A field of a strategy: a value, or a group of parameters.
pub trait Field {
    /// Adds its parameters to a list. A group has names and meanings of its own.
    fn list<'a>(
        &'a mut self,
        field: &'static str,
        about: &'static str,
        to: &mut Vec<Parameter<'a>>,
    );
}

impl<V: Value> Field for V {
    fn list<'a>(
        &'a mut self,
        field: &'static str,
        about: &'static str,
        to: &mut Vec<Parameter<'a>>,
    ) {
        to.push(Parameter { about: about.trim_start(), value: self, field });
    }
}

/// Declares a strategy, or a group of parameters: its fields, what they mean, and their defaults.
macro_rules! parameters {
    (
        $(#[doc = $about:expr])+
        pub struct $type:ident {
            $($(#[doc = $doc:expr])+ $field:ident: $kind:ty = $default:expr,)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $type {
            $($(#[doc = $doc])+ pub $field: $kind,)*
        }

        impl Default for $type {
            fn default() -> Self {
                $type { $($field: $default,)* }
            }
        }

        impl $crate::parameters::Field for $type {
            fn list<'a>(
                &'a mut self,
                _: &'static str,
                _: &'static str,
                _to: &mut Vec<$crate::parameters::Parameter<'a>>,
            ) {
                $($crate::parameters::Field::list(
                    &mut self.$field, stringify!($field), concat!($($doc),+), _to,
                );)*
            }
        }
    };
}

/// Declares a choice of words, and the default.
macro_rules! choice {
    (
        $(#[doc = $about:expr])+
        pub enum $type:ident: $default:ident { $($(#[doc = $doc:expr])+ $variant:ident = $word:literal,)+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[doc = $doc])+ $variant,)+ }

        impl Default for $type {
            fn default() -> Self {
                $type::$default
            }
        }

        impl $crate::parameters::Value for $type {
            fn kind(&self) -> $crate::parameters::Kind {
                $crate::parameters::Kind::Choice(&[$($word),+])
            }

            fn text(&self) -> String {
                match self { $($type::$variant => $word,)+ }.to_owned()
            }

            fn set(&mut self, text: &str) -> Result<(), String> {
                *self = match text {
                    $($word => $type::$variant,)+
                    _ => return Err(format!("'{text}' is none of {}", [$($word),+].join(", "))),
                };
                Ok(())
            }
        }
    };
}

pub(crate) use {choice, parameters};

impl Value for usize {
    fn kind(&self) -> Kind {
        Kind::Whole
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
        Ok(())
    }
}

impl Value for Option<f64> {
    fn kind(&self) -> Kind {
        Kind::Number
    }

    fn text(&self) -> String {
        self.map(|value| value.to_string()).unwrap_or_default()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        let number = || text.parse().map_err(|_| format!("'{text}' is not a number"));
        *self = if text.is_empty() { None } else { Some(number()?) };
        Ok(())
    }
}

/// All, if it is unset.
impl Value for Option<Amount> {
    fn kind(&self) -> Kind {
        Kind::Amount
    }

    fn text(&self) -> String {
        self.map(|amount| amount.to_string()).unwrap_or_default()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = if text.is_empty() { None } else { Some(text.parse()?) };
        Ok(())
    }
}
