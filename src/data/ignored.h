// Fields that are to be passed over, and whether any record has them: a name that none has is a mistake.
#pragma once

#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// One thread at a time.
class Ignored {
 public:
  explicit Ignored(std::vector<std::string> names = {}) : left_(std::move(names)) {}
  // Of an entry or file; nothing of a plug-in's source, which may not say what it passes over.
  static Ignored of(const DataFile& file);

  void meet(const std::vector<std::string>& unread);  // fields of records that were not read
  const std::vector<std::string>& left() const { return left_; }
  // All records have been read: warns of the names that none has, once. where: begins the message.
  void tell(const std::string& where);

 private:
  std::vector<std::string> left_;
};

}  // namespace hone::data
