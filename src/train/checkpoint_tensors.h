// The tensor files of a checkpoint: what each holds, and what of it this rank writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"
#include "train/updater.h"

namespace hone::training {

// A tensor as a file gets it. What all ranks have whole they divide among them; else each writes its slice.
struct SavedTensor {
  Slice slice;
  at::ScalarType type;  // in the file
  bool everywhere = true;
};

class TensorFile {
 public:
  // `name`: in the checkpoint, "state/optimizer-….safetensors".
  TensorFile(std::string name, const std::vector<SavedTensor>& tensors, const World& world);
  // One file of a plan that has several; `tensors` holds those of all of them.
  TensorFile(std::string name, io::SafetensorsPlan plan, const std::vector<SavedTensor>& tensors, const World& world);

  void copy_tensors();  // from then on it holds tensors of its own, in the file's types
  const std::string& name() const { return name_; }
  const io::SafetensorsPlan& plan() const { return plan_; }
  // Into a file that was made so, in the checkpoint's folder; synced when it returns.
  std::vector<io::WrittenChunk> write(const Folder& checkpoint) const;
  // Reads the first and the last chunk that another rank has written: io::check_written().
  void check(const Folder& checkpoint, const std::vector<io::WrittenChunk>& others) const;

 private:
  Folder folder_in(const Folder& checkpoint) const;
  std::string name_;
  io::SafetensorsPlan plan_;
  std::vector<SavedTensor> tensors_;  // in the plan's order
  std::vector<io::TensorPart> parts_;
};

io::TensorSpec spec_of(const SavedTensor& tensor);

}  // namespace hone::training
