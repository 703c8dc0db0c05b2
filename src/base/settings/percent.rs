//! A percentage, in the same notation in the configuration and on the command line: `50%`.

use std::fmt;
use std::str::FromStr;

/// A whole number of percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u32);

impl Percent {
    /// 100%.
    pub const ALL: Self = Self(100);

    /// Returns `50%` as 0.5.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Returns this percentage if it is at most 100%.
    ///
    /// # Errors
    /// It is above 100%.
    pub fn of_a_whole(self) -> Result<Self, &'static str> {
        if self.0 > Self::ALL.0 {
            return Err("must be at most 100%");
        }
        Ok(self)
    }
}

impl FromStr for Percent {
    type Err = &'static str;

    /// Reads `20%` and `20`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        number
            .parse()
            .map(Self)
            .map_err(|_| "must be a whole number of percent such as 20%")
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}
