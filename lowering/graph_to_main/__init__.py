"""From tensors to buffers: @main in destination-passing style over one planned workspace."""
