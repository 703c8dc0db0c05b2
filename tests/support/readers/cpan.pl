# Readers of CPAN: Mail::Address, or Email::Address::XS, the parser of Dovecot. See tests/support/readers.rs.
use strict;
use warnings;
use JSON::PP;
use MIME::Base64;
use Mail::Header;
use Mail::Address;
use Email::Address::XS;

my $json = JSON::PP->new->latin1(0)->ascii;
while (my $line = <STDIN>) {
    my ($field, $text) = split ' ', $line;
    open my $file, '<', \decode_base64($text) or die $!;
    my @values = Mail::Header->new($file, Modify => 0)->get($field);
    my @found = $ARGV[0] eq 'xs'
        ? map { $_->address } map { Email::Address::XS->parse($_) } @values
        : map { $_->address } map { Mail::Address->parse($_) } @values;
    @found = map { my $one = $_; utf8::decode($one); $one } grep { defined && length } @found;
    print $json->encode(\@found), "\n";
}
