// This machine's addresses.
#include "dist/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hone::dist {
namespace {

std::string text_of(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  return ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool is_of_loopback(const std::string& text) { return text.starts_with("127.") || text == "::1"; }

// Of a socket that sends nothing.
std::string address_towards(const Place& place) {
  addrinfo asked{}, *found = nullptr;
  asked.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &asked, &found) != 0) return "";
  std::string text;
  for (const addrinfo* one = found; one && text.empty(); one = one->ai_next) {
    const int socket = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::connect(socket, one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0)
      text = text_of(reinterpret_cast<const sockaddr*>(&own), size);
    ::close(socket);
  }
  ::freeaddrinfo(found);
  return text;
}

// The first one that is not a loopback's, IPv4 before IPv6; "": there is none.
std::string address_of_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string text;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one && text.empty(); one = one->ifa_next) {
      constexpr unsigned kWanted = IFF_UP | IFF_RUNNING;
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_LOOPBACK)) continue;
      if ((one->ifa_flags & kWanted) != kWanted) continue;
      text = text_of(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  ::freeifaddrs(all);
  return text;
}

}  // namespace

std::string address_for_others(const Place& place) {
  const std::string towards = address_towards(place);
  const bool meant = is_of_loopback(place.address) || place.address == "localhost";
  if (meant || !is_of_loopback(towards)) return towards;
  const std::string other = address_of_interface();
  return other.empty() ? towards : other;
}

}  // namespace hone::dist
