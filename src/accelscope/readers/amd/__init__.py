"""AMD GPUs: the amdgpu driver's files, and what only amd-smi or rocm-smi tell."""
