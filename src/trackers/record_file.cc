// The file system is asked before each write: a file that was removed can be written, and nobody finds it.
#include "trackers/record_file.h"

#include <utility>

#include "base/strings.h"

namespace hone::trackers {

Folder opened_or_made(Folder folder, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    folder = folder.is_folder(name) ? folder.open_folder(name) : folder.make_folder(name);
  return folder;
}

RecordFile::RecordFile(const Folder& run, std::vector<std::string> folders, std::string name)
    : run_(run), folders_(std::move(folders)), name_(std::move(name)) {}

std::uint64_t RecordFile::open() {
  if (file_ && folder_->file_size(name_) == good_size_) return good_size_;
  file_.reset();
  folder_ = opened_or_made(run_, folders_);
  file_.emplace(made_ ? folder_->append_to(name_) : folder_->create(name_));
  made_ = true;
  if (file_->size() < good_size_) {
    warnings_.warning(escape_for_terminal(file_->path().string()) +
                      ": removed or cut meanwhile, begun anew; what was in it does not come back");
    good_size_ = 0;
  }
  if (file_->size() > good_size_) file_->truncate(good_size_);
  return good_size_;
}

void RecordFile::append(std::string_view records) {
  OutFile file = *std::exchange(file_, std::nullopt);  // opened anew after a failure
  file.write(records);
  good_size_ = file.size();
  file_.emplace(std::move(file));
}

}  // namespace hone::trackers
