// Names that files give of other files, checked before anything is opened by them.
#pragma once

#include <string_view>

namespace hone::io {

// Of an entry of the same folder: no path, no "." or "..".
inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

}  // namespace hone::io
