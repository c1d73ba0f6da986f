// A storage's memory.
#include "tensor/storage.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

namespace hone::storage {

void release(const at::Tensor& x) {
  c10::StorageImpl* const storage = x.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, x.device()));
  storage->set_nbytes(0);
}

void restore(const at::Tensor& x) {
  if (is_there(x)) return;
  c10::StorageImpl* const storage = x.storage().unsafeGetStorageImpl();
  const c10::DeviceGuard guard(x.device());  // allocators take the current one
  const std::size_t bytes = x.storage_offset() * x.itemsize() + x.nbytes();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

bool is_there(const at::Tensor& x) { return x.storage().nbytes() > 0; }

}  // namespace hone::storage
