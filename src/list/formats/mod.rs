//! The formats of lists: one file for each, and what they share ([`out`], [`prefix`], [`held`],
//! [`mod@include`], [`conflict`], [`changes`]).

pub(crate) mod access;
pub(crate) mod adblock;
pub(crate) mod bare_table;
pub(crate) mod changes;
pub(crate) mod conflict;
pub(crate) mod csv;
pub(crate) mod dnsmasq;
pub(crate) mod exim;
pub(crate) mod held;
pub(crate) mod hosts;
pub(crate) mod include;
pub(crate) mod json;
pub(crate) mod out;
pub(crate) mod patterns;
pub(crate) mod plain;
pub(crate) mod prefix;
pub(crate) mod rbldnsd;
pub(crate) mod record;
pub(crate) mod rpz;
pub(crate) mod score;
pub(crate) mod sections;
pub(crate) mod spamassassin;
pub(crate) mod table;
