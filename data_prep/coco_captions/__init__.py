"""MS-COCO captions in Karpathy's split."""
