//! Numbers as people read and write them.

/// Groups the digits of a number: 1234567 -> 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.2} TiB")
}

/// Shows a number with its noun: "1 line", "1,234 lines".
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}

/// Reads a number and its unit, the last letter: with `('h', 3600)`, `2h` is 7200.
pub fn with_unit(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut digits = text.chars();
    let unit = digits.next_back()?;
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    digits.as_str().parse::<u64>().ok()?.checked_mul(*size)
}

/// Sorts counts: the largest first, equal ones by what they count.
pub fn most_first<K: Ord>(counts: impl IntoIterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
    counts
}

/// Shows a part of a whole: " 66.7 %".
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:>5.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}
