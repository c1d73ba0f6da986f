// Fields that are to be passed over.
#include "data/ignored.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "data/source.h"

namespace hone::data {

Ignored Ignored::of(const DataFile& file) {
  return Ignored(file.source.type.empty() || is_file_format(file.source.type) ? file.ignore
                                                                              : std::vector<std::string>());
}

void Ignored::meet(const std::vector<std::string>& unread) {
  std::erase_if(left_, [&](const std::string& name) {
    return std::find(unread.begin(), unread.end(), name) != unread.end();
  });
}

void Ignored::tell(const std::string& where) {
  for (const std::string& name : std::exchange(left_, {}))
    log::warning("{}: ignore: no record has a field {} to pass over", where, hone::quoted(name));
}

}  // namespace hone::data
