// Names of fields in a recipe that may be missing in a record, and whether any record has them: one that none has is a
// mistake.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// One thread at a time.
class Unmet {
 public:
  struct Name {
    std::string field;
    std::string known = {};  // that columns read from it; "": it is to be passed over
    auto operator<=>(const Name&) const = default;
  };
  Unmet() = default;
  explicit Unmet(std::vector<Name> names) : left_(std::move(names)) {}
  Unmet(const std::vector<std::string>& ignore, const std::map<std::string, std::string>& columns);
  // Of an entry or file; nothing of a plug-in's source, which need not say what it passes over.
  static Unmet of(const DataFile& file);

  void meet(const std::vector<std::string>& unread, const std::vector<std::string>& renamed);  // as Record's
  const std::vector<Name>& left() const { return left_; }
  // All records have been read: warns of the names that none has, once. where: begins the message.
  void tell(const std::string& where);

 private:
  std::vector<Name> left_;
};

}  // namespace hone::data
