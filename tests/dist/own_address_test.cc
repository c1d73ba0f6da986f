// What ranks of several machines tell each other.
#include "dist/own_address.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

namespace hone::dist {
namespace {

Place of_two() {
  Place place;
  place.size = 2, place.local_size = 1;
  return place;
}

// What is listened at here is at that address, too.
TEST(OwnAddress, OthersAreToldAnAddressOfThisMachine) {
  Place place = of_two();
  for (const char* meant : {"127.0.0.1", "localhost"}) {
    place.address = meant;
    EXPECT_TRUE(address_for_others(place) == "127.0.0.1" || address_for_others(place) == "::1") << meant;
  }
  place.address = "::1";
  EXPECT_EQ(address_for_others(place), "::1");
}

// As Debian's /etc/hosts names a machine to itself.
TEST(OwnAddress, AMachineThatKnowsItselfByALoopbackAddressTellsAnotherOne) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  bool has_other = false;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    has_other |= one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK) &&
                 (one->ifa_flags & IFF_RUNNING);
  ::freeifaddrs(all);
  Place place = of_two();
  place.address = "0x7f000101";  // 127.0.1.1, as a name that is not that of a loopback
  const std::string own = address_for_others(place);
  EXPECT_EQ(own.starts_with("127."), !has_other) << own;
}

}  // namespace
}  // namespace hone::dist
