#include "base/host.h"

#include <unistd.h>

namespace hone {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "this machine";
}

}  // namespace hone
