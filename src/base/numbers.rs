//! Numbers for human readers.

/// Groups the digits of a number: 1234567 -> 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, others) = digits.split_at(digits.len() % 3);
    let mut groups: Vec<&str> = Vec::new();
    groups.extend(Some(first).filter(|first| !first.is_empty()));
    let others = others.as_bytes().chunks(3);
    groups.extend(others.filter_map(|group| str::from_utf8(group).ok()));
    groups.join(",")
}

/// Shows a number of bytes with a unit.
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" {
                format!("{bytes} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.2} TiB")
}

/// Shows a number with its noun: "1 line", "1,234 lines".
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}

/// Shows a part of a whole: " 66.7 %".
#[allow(
    clippy::cast_precision_loss,
    reason = "shown with one digit after the point"
)]
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:>5.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(
            [0, 99, 999, 1000, 1_234_567].map(grouped),
            ["0", "99", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [12, 4096, 3 << 30].map(size),
            ["12 bytes", "4.0 KiB", "3.0 GiB"]
        );
    }
}
