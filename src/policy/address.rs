//! Classes of IP addresses (D15): which ones a *name* may lead to.
//!
//! Whoever controls the DNS of an allowed name chooses the addresses behind it, so everything that is not an ordinary public
//! address is refused unless the rule names it. Addresses that carry an IPv4 address inside (v4-mapped, v4-compatible, NAT64,
//! 6to4, ISATAP) are judged by what they carry, because that is where the packets go. The documentation ranges (192.0.2.0/24,
//! 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32) are ordinary: blocking them protects nothing, and labs route them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// An ordinary address of the internet.
    Public,
    /// 127.0.0.0/8 and ::1.
    Loopback,
    /// 0.0.0.0/8 and ::, which Linux connects to loopback.
    Unspecified,
    /// RFC 1918, carrier-grade NAT (RFC 6598), unique local, site-local.
    Private,
    /// 169.254.0.0/16 and fe80::/10, home of the cloud metadata services.
    LinkLocal,
    /// 224.0.0.0/4 and ff00::/8.
    Multicast,
    /// 198.18.0.0/15 (RFC 2544) and 2001:2::/48.
    Benchmarking,
    /// Everything else that is not assigned for ordinary use.
    Reserved,
}

impl AddressClass {
    /// The class of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        match canonical(ip) {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        match ip.octets() {
            [0, ..] => Self::Unspecified,
            [127, ..] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            [198, 18..=19, ..] => Self::Benchmarking,
            // IETF protocol assignments (RFC 6890) and the deprecated 6to4 relay anycast (RFC 7526).
            [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Self::Reserved,
            [224..=239, ..] => Self::Multicast,
            _ => Self::Public,
        }
    }

    fn of_v6(ip: Ipv6Addr) -> Self {
        if ip.is_loopback() {
            return Self::Loopback;
        }
        if ip.is_unspecified() {
            return Self::Unspecified;
        }
        let seg = ip.segments();
        if let Some(inner) = embedded(ip) {
            let class = Self::of_v4(inner);
            // v4-compatible addresses (::/96) are deprecated (RFC 4291 §2.5.5.1): never public, whatever they carry.
            if class != Self::Public || matches!(seg, [0, 0, 0, 0, 0, 0, ..]) {
                return if class == Self::Public {
                    Self::Reserved
                } else {
                    class
                };
            }
        }
        match seg {
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Self::Private,
            [0xff00..=0xffff, ..] => Self::Multicast,
            [0x2001, 2, 0, ..] => Self::Benchmarking,
            // Teredo (2001::/32) hides its peer; ORCHID (2001:10::/28, 2001:20::/28) and the rest of the protocol block
            // 2001::/23 (RFC 2928) are not destinations, except the anycast and DNS blocks nobody dials by a name.
            [0x2001, 0..=0x01ff, ..] => Self::Reserved,
            // Global unicast, and the well-known NAT64 prefix (RFC 6052), where what it carries was judged above.
            [0x2000..=0x3fff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Self::Public,
            _ => Self::Reserved,
        }
    }

    /// For messages: `10.0.0.5 (private address)`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Public => "public address",
            Self::Loopback => "loopback address",
            Self::Unspecified => "unspecified address",
            Self::Private => "private address",
            Self::LinkLocal => "link-local address",
            Self::Multicast => "multicast address",
            Self::Benchmarking => "benchmarking address",
            Self::Reserved => "reserved address",
        }
    }

    /// `allow_private = true` on a rule opens these: the user's own networks. The rest has to be named as a literal.
    #[must_use]
    pub fn opened_by_allow_private(self) -> bool {
        match self {
            Self::Public | Self::Private | Self::Loopback | Self::Benchmarking => true,
            Self::Unspecified | Self::LinkLocal | Self::Multicast | Self::Reserved => false,
        }
    }
}

/// IPv4-mapped IPv6 (`::ffff:a.b.c.d`) is the same destination as the IPv4 address (RFC 4291 §2.5.5.2).
#[must_use]
pub fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// The IPv4 address that an IPv6 address carries to its real destination, if it does.
#[must_use]
pub fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let seg = ip.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match seg {
        // :: and ::1 are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // v4-compatible, v4-mapped (RFC 4291); v4-translated (RFC 2765); well-known NAT64 (RFC 6052); 6to4 (RFC 3056);
        // ISATAP (RFC 5214) in any prefix
        [0, 0, 0, 0, 0, 0 | 0xffff, h, l]
        | [0, 0, 0, 0, 0xffff, 0, h, l]
        | [0x64, 0xff9b, 0, 0, 0, 0, h, l]
        | [0x2002, h, l, ..]
        | [_, _, _, _, 0 | 0x0200, 0x5efe, h, l] => v4(h, l),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_at_its_edges() {
        use AddressClass as C;
        for (text, class) in [
            ("0.0.0.0", C::Unspecified),
            ("0.1.2.3", C::Unspecified),
            ("1.0.0.0", C::Public),
            ("9.255.255.255", C::Public),
            ("10.0.0.0", C::Private),
            ("10.255.255.255", C::Private),
            ("11.0.0.0", C::Public),
            ("100.63.255.255", C::Public),
            ("100.64.0.0", C::Private),
            ("100.127.255.255", C::Private),
            ("100.128.0.0", C::Public),
            ("127.0.0.1", C::Loopback),
            ("127.255.255.255", C::Loopback),
            ("169.253.255.255", C::Public),
            ("169.254.0.0", C::LinkLocal),
            ("169.254.169.254", C::LinkLocal),
            ("172.15.255.255", C::Public),
            ("172.16.0.0", C::Private),
            ("172.31.255.255", C::Private),
            ("172.32.0.0", C::Public),
            ("192.0.0.192", C::Reserved),
            ("192.0.1.1", C::Public),
            ("192.0.2.1", C::Public),
            ("192.88.99.1", C::Reserved),
            ("192.168.0.0", C::Private),
            ("192.169.0.0", C::Public),
            ("198.17.255.255", C::Public),
            ("198.18.0.0", C::Benchmarking),
            ("198.19.255.255", C::Benchmarking),
            ("198.20.0.0", C::Public),
            ("198.51.100.7", C::Public),
            ("203.0.113.10", C::Public),
            ("223.255.255.255", C::Public),
            ("224.0.0.1", C::Multicast),
            ("239.255.255.255", C::Multicast),
            ("240.0.0.1", C::Reserved),
            ("255.255.255.255", C::Reserved),
            ("8.8.8.8", C::Public),
            ("::", C::Unspecified),
            ("::1", C::Loopback),
            ("::2", C::Unspecified),
            ("::127.0.0.1", C::Loopback),
            ("::8.8.8.8", C::Reserved),
            ("::ffff:127.0.0.1", C::Loopback),
            ("::ffff:8.8.8.8", C::Public),
            ("::ffff:0:10.0.0.1", C::Private),
            ("::ffff:0:8.8.8.8", C::Reserved),
            ("64:ff9b::10.0.0.1", C::Private),
            ("64:ff9b::8.8.8.8", C::Public),
            ("64:ff9b::a9fe:a9fe", C::LinkLocal),
            ("64:ff9b:1::1", C::Reserved),
            ("100::1", C::Reserved),
            ("2000::1", C::Public),
            ("2001::1", C::Reserved),
            ("2001:2::1", C::Benchmarking),
            ("2001:2:1::1", C::Reserved),
            ("2001:10::1", C::Reserved),
            ("2001:1ff::1", C::Reserved),
            ("2001:200::1", C::Public),
            ("2001:db8::10", C::Public),
            ("2002:7f00:1::1", C::Loopback),
            ("2002:a9fe:a9fe::1", C::LinkLocal),
            ("2002:808:808::1", C::Public),
            ("2606:4700::1", C::Public),
            ("2606:4700::5efe:10.0.0.1", C::Private),
            ("2606:4700::200:5efe:127.0.0.1", C::Loopback),
            ("3fff::1", C::Public),
            ("4000::1", C::Reserved),
            ("fc00::1", C::Private),
            ("fdff::1", C::Private),
            ("fd00:ec2::254", C::Private),
            ("fe80::1", C::LinkLocal),
            ("febf::1", C::LinkLocal),
            ("fec0::1", C::Private),
            ("ff02::1", C::Multicast),
            ("ffff::", C::Multicast),
        ] {
            assert_eq!(AddressClass::of(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn mapped_addresses_fold() {
        assert_eq!(
            canonical("::ffff:192.0.2.1".parse().unwrap()),
            "192.0.2.1".parse::<IpAddr>().unwrap()
        );
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(canonical(v6), v6);
    }

    proptest::proptest! {
        /// No way of carrying an IPv4 address in IPv6 makes a refused address public.
        #[test]
        fn carrying_never_launders(n: u32, prefix: [u16; 4]) {
            let v4 = Ipv4Addr::from(n);
            if AddressClass::of(v4.into()) != AddressClass::Public {
                let (h, l) = ((n >> 16) as u16, (n & 0xffff) as u16);
                let [p, q, r, s] = prefix;
                for seg in [
                    [0, 0, 0, 0, 0, 0xffff, h, l],
                    [0, 0, 0, 0, 0, 0, h, l],
                    [0, 0, 0, 0, 0xffff, 0, h, l],
                    [0x64, 0xff9b, 0, 0, 0, 0, h, l],
                    [0x2002, h, l, q, r, s, p, 7],
                    [p, q, r, s, 0, 0x5efe, h, l],
                    [p, q, r, s, 0x200, 0x5efe, h, l],
                ] {
                    let class = AddressClass::of(Ipv6Addr::from(seg).into());
                    proptest::prop_assert_ne!(class, AddressClass::Public, "{:x?}", seg);
                }
            }
        }

        /// Nothing outside 2000::/3 is public, but for the well-known NAT64 prefix and mapped IPv4.
        #[test]
        fn only_global_unicast_is_public(seg: [u16; 8]) {
            let ip = Ipv6Addr::from(seg);
            if AddressClass::of(ip.into()) == AddressClass::Public {
                proptest::prop_assert!(
                    seg[0] & 0xe000 == 0x2000
                        || seg[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
                        || ip.to_ipv4_mapped().is_some()
                );
            }
        }
    }
}
